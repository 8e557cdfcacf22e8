"""Compares the labels of a model with those of a task: by name, or by number without names."""

from __future__ import annotations

import re
from collections.abc import Sequence

from albert.core.text import listed

# A label of None is that of a head for numbers.
Labels = Sequence[str | None]
_NUMBER = re.compile(r"(?:LABEL_)?(\d+)", re.IGNORECASE)


def are_numbers(labels: Labels) -> bool:
    """Returns whether labels have no names but numbers, such as LABEL_0 or 0."""
    return all(_NUMBER.fullmatch(str(label)) for label in labels)


def rows_by_name(theirs: Labels, ours: Labels) -> tuple[list[int] | None, str]:
    """Returns the row of each of our labels in a head for `theirs`, and a warning or "".

    The warning is about labels without names. For other labels, the rows are None, and the text
    names both.
    """
    own, known = _keys(ours, theirs), _keys(theirs, ours)
    if sorted(map(str, own)) != sorted(map(str, known)):
        both = (listed([name or "a number" for name in names], most=10) for names in (theirs, ours))
        return None, "the labels {}, not {}".format(*both)
    rows = [known.index(key) for key in own]
    if not (are_numbers(theirs) or are_numbers(ours)):
        return rows, ""
    pairs = [f"{theirs[row]} = {label}" for row, label in zip(rows, ours, strict=True)]
    whose = "model's" if are_numbers(theirs) else "task's"
    return rows, f"The {whose} labels have no names; assumed: {listed(pairs, most=10)}"


def _keys(labels: Labels, others: Labels) -> list[str | None]:
    """Returns the names to compare or, if one side has none, the numbers of rows."""
    if are_numbers(labels):
        return [str(label).rpartition("_")[2] for label in labels]
    have_rows = are_numbers(others) and None not in labels
    return [str(row) for row in range(len(labels))] if have_rows else [*labels]
