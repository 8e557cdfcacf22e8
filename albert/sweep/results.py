"""The results of a sweep: a table, a file of tab-separated values, and a figure."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence

from albert.core.files import open_atomically, read_bytes
from albert.core.text import aligned
from albert.report.scatter import Point, write_scatter
from albert.sweep.space import Range, Space
from albert.sweep.study import COMPLETE, PRUNED, TrialResult

TABLE, FIGURE = "trials.tsv", "trials.svg"


def folder_of(number: int) -> str:
    """Returns the name of a trial's folder."""
    return f"trial-{number:03}"


def best_of(results: Sequence[TrialResult]) -> TrialResult | None:
    """Returns the completed trial with the highest score, of equal ones the first."""
    completed = [result for result in results if result.state == COMPLETE]
    return max(completed, key=lambda result: result.score or 0.0, default=None)


def write_results(folder: str, results: Sequence[TrialResult], space: Space, score: str) -> None:
    """Writes the table and, if a trial has a score, the figure; not if the table stays the same."""
    path = os.path.join(folder, TABLE)
    text = "".join("\t".join(row) + "\n" for row in _rows(results, space, score))
    if os.path.exists(path) and read_bytes(path) == text.encode():
        return
    points = [
        Point(f"{folder_of(r.number)}: {r.score:.4g}", r.score, r.flags, r.state == COMPLETE)
        for r in results
        if r.state in (COMPLETE, PRUNED) and r.score is not None and math.isfinite(r.score)
    ]
    if points:
        scales = {n: isinstance(b, Range) and not b.is_whole for n, b in space.items()}
        write_scatter(os.path.join(folder, FIGURE), points, scales, score)
    # Last, because a table with this content asserts that the figure is written.
    with open_atomically(path) as file:
        file.write(text)


def lines_of(results: Sequence[TrialResult], space: Space, score: str) -> list[str]:
    """Returns the table with aligned columns, the best trial first."""
    order = sorted(results, key=lambda r: (r.state != COMPLETE, -(r.score or -math.inf)))
    return aligned(_rows(order, space, score))


def _rows(results: Sequence[TrialResult], space: Space, score: str) -> Iterator[list[str]]:
    yield ["folder", "state", score, *space]
    for result in results:
        value = "" if result.score is None else f"{result.score:.6g}"
        flags = [f"{result.flags[name]:g}" if name in result.flags else "" for name in space]
        yield [folder_of(result.number), result.state, value, *flags]
