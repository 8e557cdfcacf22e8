"""Rows of a file that cannot be used: what to do with them, and their number by reason."""

from __future__ import annotations

import collections
from collections.abc import Sequence

from albert.core.errors import UserError
from albert.core.log import LOG
from albert.core.text import listed
from albert.data.tables import SourceLine

# What to do with them; the last value is for questions only.
ERROR, SKIP, FIRST = ON_BAD_ROW = ("error", "skip", "first")
_NAMED = 3  # number of rows that a message names


class BadRows:
    """The rows of a file that cannot be used: their number by reason, and the first ones.

    `action` is one of `choices`: "error", "skip" or "first"; "first" also skips them, but uses the
    first occurrence of an answer that occurs several times.
    """

    def __init__(self, path: str, action: str, choices: Sequence[str] = ON_BAD_ROW):
        self.action = action
        self.counts: collections.Counter[str] = collections.Counter()
        self._path, self._ways_out = path, " or ".join(choices[1:])
        self._first: dict[str, list[str]] = collections.defaultdict(list)
        self._used = set[str]()

    def add(
        self, location: SourceLine | str, reason: str, detail: str = "", is_used: bool = False
    ) -> None:
        """Adds a row; the detail is shown after its line or name.

        `is_used` means that the row is used unless the action is an error.
        """
        self.counts[reason] += 1
        if is_used:
            self._used.add(reason)
        if len(self._first[reason]) <= _NAMED:
            name = location if isinstance(location, str) else f"line {location.line}"
            self._first[reason].append(f"{name}{detail}")

    def finish(self) -> None:
        """Logs which rows are skipped, or raises a `UserError` for them if that is the action."""
        lines = [
            f"{count} row{'s' * (count > 1)}: {reason}: {listed(self._first[reason], _NAMED)}"
            for reason, count in self.counts.items()
        ]
        if self.action == ERROR and lines:
            raise UserError(
                f"{self._path}: {'; '.join(lines)}; correct them, or pass --on_bad_row="
                f"{self._ways_out}"
            )
        for reason, line in zip(self.counts, lines, strict=True):
            used = "used" if reason in self._used else "skipped"
            LOG.warning("%s: %s %s", self._path, used, line)
