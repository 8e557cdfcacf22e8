"""The figure of `benchmarks.precision`, of made-up curves."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from benchmarks import precision

SVG = "{http://www.w3.org/2000/svg}"
CURVES = {
    "float32": {step: 4.0 if step <= 500 else 2.0 for step in range(1, 1001)},
    # Logged every tenth step, and a little higher all the time.
    "a&b.json": {step: 4.5 if step <= 500 else 2.5 for step in range(10, 1001, 10)},
}
SCORES = {"float32": {"f1": 88.126}, "a&b.json": {"f1": 87.0}}
COMMAND = "python -m benchmarks.precision --configs 'a&b.json'"


@pytest.fixture
def figure(tmp_path):
    """The figure as XML."""
    path = tmp_path / "figure.svg"
    precision.write_figure(str(path), CURVES, SCORES, COMMAND)
    return ET.parse(path).getroot()


def texts(figure):
    return [element.text for element in figure.iter(f"{SVG}text")]


def test_names_curves_scores_and_command(figure):
    assert f"made by {COMMAND}" in texts(figure)
    assert {"float32: F1 88.13", "a&b.json: F1 87.00"} <= set(texts(figure))


def test_lines_are_the_mean_losses(figure):
    lines = [
        [tuple(map(float, point.split(","))) for point in line.get("points").split()]
        for line in figure.iter(f"{SVG}polyline")
    ]
    # A fiftieth of the training each.
    assert [len(line) for line in lines] == [50, 50]
    width, height = float(figure.get("width")), float(figure.get("height"))
    for line in lines:
        assert all(0 < x < width and 0 < y < height for x, y in line)
        assert [x for x, _ in line] == [x for x, _ in lines[0]] == sorted(x for x, _ in line)
        assert len({y for _, y in line[:25]}) == len({y for _, y in line[25:]}) == 1
    # One unit of the loss is as high wherever it is, and upward.
    (high, low), (higher, lower) = (({y for _, y in line[:25]}, line[-1][1]) for line in lines)
    high, higher = high.pop(), higher.pop()
    unit = (low - high) / 2
    assert unit > 0
    assert high - higher == pytest.approx(unit / 2, abs=0.2)
    assert low - lower == pytest.approx(unit / 2, abs=0.2)


def test_axes_have_round_numbers(figure):
    numbers = [float(text.replace(",", "")) for text in texts(figure) if text[0].isdigit()]
    assert numbers == [0, 1, 2, 3, 4, *range(0, 1001, 100)]


def test_is_the_same_file_every_time(figure, tmp_path):
    precision.write_figure(str(tmp_path / "again.svg"), CURVES, SCORES, COMMAND)
    written = (tmp_path / "figure.svg").read_bytes()
    assert (tmp_path / "again.svg").read_bytes() == written and len(written) < 10_000
