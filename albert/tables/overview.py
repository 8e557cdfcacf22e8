"""The overview of a file that `albert data check` shows: format, counts, problems and examples."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from albert.core.text import printable
from albert.tables.bad_rows import BadRows
from albert.tables.tables import Table

# Number of characters of a text to show before and after its first mark.
SHOWN = 200


class Line(NamedTuple):
    """A text of an example, with its name and its marks; see `albert.report.terminal.wrapped`."""

    name: str
    text: str
    marks: Sequence[tuple[int, int, str]] = ()


class Overview:
    """The content of a file as a training reads it; the task of the file fills the overview.

    Attributes:
      format: the name of the file's format.
      counts: names and values, such as ("questions", "1,234").
      examples: the first examples: a title, and lines.
      bad: the rows that a training would skip or refuse; the caller finishes it.
      problem: why a training would refuse the file as a whole; "" if it would not.
    """

    format: str
    bad: BadRows
    problem = ""

    def __init__(self, path: str, num_examples: int, on_bad_row: str):
        self.path, self.on_bad_row = path, on_bad_row
        self.counts = list[tuple[str, str]]()
        self.examples = list[tuple[str, list[Line]]]()
        self._num_examples = num_examples

    def add(self, name: str, value: int | str, note: str = "") -> None:
        """Adds a row: a count with a note after it, or a text."""
        self.counts.append((name, f"{value if isinstance(value, str) else f'{value:,}'}{note}"))

    def add_columns(self, table: Table, used: Iterable[str]) -> None:
        """Adds the names of the columns of a table that are used, and of the others."""
        names = [name for name in used if name and name in table.columns]
        ignored = ", ".join(name for name in table.columns if name and name not in names)
        self.add("columns used", printable(", ".join(names)))
        self.add("columns ignored", printable(ignored) or "none")

    def add_example(self, title: str, lines: Iterable[Line]) -> None:
        """Adds an example, unless there are enough."""
        if len(self.examples) < self._num_examples:
            self.examples.append((title, list(lines)))
