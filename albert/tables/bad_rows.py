"""Rows of a file that cannot be used: what to do with them, and their number by reason."""

from __future__ import annotations

import collections
from collections.abc import Sequence

from albert.core.errors import FlagError, UserError
from albert.core.log import LOG
from albert.core.text import listed
from albert.tables.tables import SourceLine

# What to do with them; the last two values are for questions only.
ERROR, SKIP, FIRST, LENIENT = ON_BAD_QUESTION = ("error", "skip", "first", "lenient")
ON_BAD_ROW = (ERROR, SKIP)
_NAMED = 3  # number of rows that a message names
_REASONS = 9  # number of reasons that a message names


class BadRows:
    """The rows of a file that cannot be used: their number by reason, and the first ones.

    `action` is one of `choices`: "error", "skip", "first" or "lenient"; the last two skip them,
    too, but use some answers that occur several times or with other characters. `unit` is what a
    row is. Raises a `FlagError` for an action that is not one of the choices.
    """

    def __init__(
        self, path: str, action: str, choices: Sequence[str] = ON_BAD_ROW, unit: str = "row"
    ):
        if action not in choices:
            raise FlagError(f"--on_bad_row={action} is for questions only")
        self.action = action
        self.counts: collections.Counter[str] = collections.Counter()
        # What is no fault, with the number of rows.
        self.notes: collections.Counter[str] = collections.Counter()
        self._path, self._unit, self._ways_out = path, unit, " or ".join(choices[1:])
        self._used: collections.Counter[str] = collections.Counter()
        self._first: dict[tuple[str, bool], list[str]] = collections.defaultdict(list)

    def names(self, reason: str) -> bool:
        """Returns whether a message would name another row with this reason."""
        return len(self._first[reason, False]) < _NAMED

    def add(
        self, location: SourceLine | str, reason: str, detail: str = "", is_used: bool = False
    ) -> None:
        """Adds a row; the detail is shown after its line or name.

        `is_used` means that the row is used unless the action is an error.
        """
        (self._used if is_used else self.counts)[reason] += 1
        first = self._first[reason, is_used]
        if len(first) <= _NAMED:
            name = location if isinstance(location, str) else location.name
            first.append(f"{name}{detail}")

    def _lines(self, is_used: bool) -> list[str]:
        counts = self._used if is_used else self.counts
        lines = [
            f"{count} {self._unit}{'s' * (count > 1)}: {reason}: "
            f"{listed(self._first[reason, is_used], _NAMED)}"
            for reason, count in counts.items()
        ]
        more = len(lines) - _REASONS
        return [*lines[:_REASONS], f"{more} other reasons"] if more > 0 else lines

    def finish(self) -> None:
        """Logs which rows are skipped, or raises a `UserError` for them if that is the action."""
        for note, count in self.notes.items():
            LOG.warning("%s: %s: %d", self._path, note, count)
        skipped = self._lines(False)
        if self.action == ERROR and skipped:
            remedy = self._ways_out and f", or pass --on_bad_row={self._ways_out}"
            raise UserError(f"{self._path}: {'; '.join(skipped)}; correct them{remedy}")
        for what, lines in (("used", self._lines(True)), ("skipped", skipped)):
            for line in lines:
                LOG.warning("%s: %s %s", self._path, what, line)
