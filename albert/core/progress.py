"""A progress bar for long work outside the graph, where the output is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

import tqdm

T = TypeVar("T")


def progress_bar(total: int, what: str, unit: str) -> tqdm.tqdm:
    """Returns a bar to `update`; only a terminal shows it, so that logs stay free of it."""
    hidden = not sys.stderr.isatty()
    return tqdm.tqdm(total=total, desc=what, unit=f" {unit}", disable=hidden, leave=False)


def progress(items: Iterable[T], total: int, what: str, unit: str) -> Iterator[T]:
    """Yields the items and draws a bar."""
    with progress_bar(total, what, unit) as bar:
        for item in items:
            yield item
            bar.update()
