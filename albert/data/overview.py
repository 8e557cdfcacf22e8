"""The overview of a file that `albert data check` shows: format, counts, problems and examples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from albert.data.bad_rows import BadRows

# Number of characters of a text to show before and after its first mark.
SHOWN = 200

# The start and end of a part to mark, and its kind; see `albert.report.terminal.wrapped`.
Mark = tuple[int, int, str]


class Line(NamedTuple):
    """A text of an example, with its name and its marked parts."""

    name: str
    text: str
    marks: Sequence[Mark] = ()


class Overview(NamedTuple):
    """The content of a file as a training reads it.

    Attributes:
      format: the name of the file's format.
      counts: names and values, such as ("questions", "1,234").
      examples: the first examples: a title, and lines.
      bad: the rows that a training would skip or refuse; the caller finishes it.
    """

    format: str
    counts: Sequence[tuple[str, str]]
    examples: Sequence[tuple[str, Sequence[Line]]]
    bad: BadRows
