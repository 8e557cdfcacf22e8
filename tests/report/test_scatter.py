"""The figure of a sweep: points in their places, on every panel."""

import itertools
import xml.etree.ElementTree as ET

import pytest

from albert.report.scatter import Point, write_scatter

SVG = "{http://www.w3.org/2000/svg}"
POINTS = [
    Point("<a>", 0.5, {"rate": 1e-5, "size": 16}, True),
    Point("b", 0.75, {"rate": 1e-4, "size": 32}, True),
    Point("c", 0.9, {"rate": 1e-3, "size": 32}, False),
]


def draw(path, points, panels=(("rate", True), ("size", False))):
    write_scatter(str(path / "figure.svg"), points, dict(panels), "f1 & more")
    figure = ET.parse(path / "figure.svg").getroot()
    return [text.text for text in figure.iter(f"{SVG}text")], [
        [(float(c.get("cx")), float(c.get("cy")), c) for c in panel.iter(f"{SVG}circle")]
        for panel in figure.iter(f"{SVG}g")
    ]


def test_points_are_at_their_values_and_the_best_complete_one_is_red(tmp_path):
    texts, panels = draw(tmp_path, POINTS)
    assert texts[0].startswith("f1 & more") and {"rate", "size"} < {*texts}
    assert {"1e-05", "0.0001", "0.001", "16", "32", "0.5", "0.7", "0.9"} <= {*texts}
    for circles in panels:
        assert [circle.find(f"{SVG}title").text for *_, circle in circles] == ["<a>", "b", "c"]
        fills = [circle.get("fill") for *_, circle in circles]
        assert fills == ["#00798c", "#d1495b", "none"]
        heights = [y for _, y, _ in circles]
        # Up to the pixels' tenths, in the ratio of the scores.
        assert heights[0] - heights[1] == pytest.approx((heights[0] - heights[2]) * 0.625, abs=0.1)
        assert heights == sorted(heights, reverse=True)
    (a, b, c), (d, e, f) = ([x for x, *_ in circles] for circles in panels)
    assert b - a == pytest.approx(c - b, abs=0.1) and a < b
    assert d < e == f
    for count in (1, 2):
        _, panels = draw(tmp_path, POINTS[:1] * count)
        assert len({(x, y) for x, y, _ in itertools.chain(*panels)}) == 1, "equal values"
