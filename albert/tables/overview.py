"""The overview of a file that `albert data check` shows: format, counts, problems and examples."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from albert.core.text import printable
from albert.tables.bad_rows import BadRows
from albert.tables.tables import Table

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
      problem: why a training would refuse the file as a whole; "" if it would not.
    """

    format: str
    counts: Sequence[tuple[str, str]]
    examples: Sequence[tuple[str, Sequence[Line]]]
    bad: BadRows
    problem: str = ""


def columns_of(table: Table, used: Iterable[str]) -> list[tuple[str, str]]:
    """Returns the names of the columns of a table that are used, and of the others."""
    names = [name for name in used if name and name in table.columns]
    ignored = ", ".join(name for name in table.columns if name and name not in names)
    used_names = printable(", ".join(names))
    return [("columns used", used_names), ("columns ignored", printable(ignored) or "none")]


class TokenCounts:
    """Counts the tokens of texts, and those that are unknown to the tokenizer."""

    def __init__(self, unk_id: int):
        self._unk_id, self._total, self._unknown = unk_id, 0, 0

    def add(self, ids: Sequence[int]) -> None:
        """Counts the tokens of a text."""
        self._total += len(ids)
        self._unknown += ids.count(self._unk_id)

    def row(self) -> tuple[str, str]:
        """Returns the row of an overview."""
        share = self._unknown / max(1, self._total)
        return "tokens", f"{self._total:,}; {share:.2%} are unknown to the tokenizer"
