"""A progress bar for long work outside the graph, where the output is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

import tqdm

T = TypeVar("T")


def progress(items: Iterable[T], total: int, what: str, unit: str) -> Iterator[T]:
    """Yields the items; draws a bar on a terminal and nothing elsewhere, logs included."""
    hidden = not sys.stderr.isatty()
    yield from tqdm.tqdm(
        items, total=total, desc=what, unit=f" {unit}", disable=hidden, leave=False
    )
