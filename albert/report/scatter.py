"""A figure of scores by the values of some settings, as SVG."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

from albert.core.files import open_atomically

# Layout of a panel in pixels.
_WIDTH, _HEIGHT = 240, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 50, 230, 30, 210
_BEST, _USUAL = "#d1495b", "#00798c"
# An axis shows up to this many different values, else the lowest, the middle and the highest.
_MOST_VALUES = 5


class Point(NamedTuple):
    """A trial in the figure, with its values by the name of the setting.

    A browser shows `label` when the mouse is over it. A trial that was ended early is not filled.
    """

    label: str
    score: float
    values: dict[str, float]
    is_filled: bool


def write_scatter(
    path: str, points: Sequence[Point], settings: dict[str, bool], score: str
) -> None:
    """Writes a panel per setting, with a point for each of one or more trials; the best is red.

    `settings` says by the name of each setting whether its axis is logarithmic.
    """
    size = f'width="{_WIDTH * len(settings)}" height="{_HEIGHT}"'
    font = 'font-family="sans-serif" font-size="11" fill="#222222"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font}><rect {size} fill="#ffffff"/>',
        _text(8, 16, "start", f"{escape(score)}; hollow: pruned; red: the best"),
    ]
    for number, (name, is_log) in enumerate(settings.items()):
        panel = _panel(points, name, is_log)
        lines += [f'<g transform="translate({number * _WIDTH} 0)">', *panel, "</g>"]
    with open_atomically(path) as file:
        file.write("\n".join([*lines, "</svg>", ""]))


def _panel(points: Sequence[Point], name: str, is_log: bool) -> Iterator[str]:
    xs = [math.log10(p.values[name]) if is_log else p.values[name] for p in points]
    ys = [point.score for point in points]
    x_of, y_of = _scale(xs, _LEFT + 8, _RIGHT - 8), _scale(ys, _BOTTOM - 8, _TOP + 8)
    yield f'<path d="M{_LEFT} {_TOP}V{_BOTTOM}H{_RIGHT}" fill="none" stroke="#888888"/>'
    yield _text((_LEFT + _RIGHT) / 2, _BOTTOM + 36, "middle", name)
    for x in _ticks(xs):
        yield _text(x_of(x), _BOTTOM + 16, "middle", f"{10**x if is_log else x:.3g}")
    for y in _ticks(ys):
        yield _text(_LEFT - 6, y_of(y) + 4, "end", f"{y:.4g}")
    best = max(points, key=lambda point: (point.is_filled, point.score))
    for point, x, y in zip(points, xs, ys, strict=True):
        color = _BEST if point is best else _USUAL
        fill = color if point.is_filled else "none"
        title = f"<title>{escape(point.label)}</title>"
        at = f'cx="{x_of(x):.1f}" cy="{y_of(y):.1f}" r="4"'
        yield f'<circle {at} fill="{fill}" stroke="{color}">{title}</circle>'


def _text(x: float, y: float, anchor: str, text: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>'


def _scale(values: Sequence[float], first: float, last: float) -> Callable[[float], float]:
    low, high = min(values), max(values)
    size = high - low or 1.0
    middle = 0.5 if high == low else 0.0
    return lambda value: first + (last - first) * ((value - low) / size + middle)


def _ticks(values: Sequence[float]) -> list[float]:
    different = sorted(set(values))
    if len(different) <= _MOST_VALUES and all(value == int(value) for value in different):
        return different
    low, high = different[0], different[-1]
    return sorted({low, (low + high) / 2, high})
