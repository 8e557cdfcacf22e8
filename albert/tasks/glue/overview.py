"""The overview of a table of labels for `albert data check`."""

from __future__ import annotations

import collections
from collections.abc import Iterator

from albert.core.text import printable
from albert.tables.bad_rows import BadRows
from albert.tables.overview import SHOWN, Line, Overview
from albert.tables.tables import open_table
from albert.tasks.glue.label_tables import (
    LABEL,
    LabeledText,
    classes_of,
    parse_number,
    read_labeled,
    spellings,
    value_of,
)
from albert.tasks.glue.settings import TableSettings

_SHOWN_LABELS = 20
_NO_LABEL = "(no label)"


def fill(overview: Overview, settings: TableSettings) -> None:
    """Fills an overview of a table; raises a `UserError` if it is not valid, or lacks a column."""
    table, bad = open_table(overview.path), BadRows(overview.path, overview.on_bad_row)
    overview.format, overview.bad = table.format, bad
    # A test set needs no labels.
    is_labeled = bool(settings.label_column)
    total, contradictory = 0, 0
    labels, seen = collections.Counter[str](), dict[int, int]()
    for row in read_labeled(table, settings, bad, is_labeled):
        total += 1
        labels.update(row.labels or ([_NO_LABEL] if settings.multi_label else []))
        # Numbers take less memory than the texts.
        own = hash(frozenset(map(value_of, row.labels)))
        contradictory += own != seen.setdefault(hash((row.text_a, row.text_b)), own)
        overview.add_example(row.location.name, _lines_of(row))
    labeled = settings.label_columns or (settings.label_column,)
    overview.add_columns(table, (settings.text_column, settings.text_b_column, *labeled))
    overview.add("texts", total)
    if settings.tsv_regression and labels:
        numbers = sorted(map(parse_number, labels))
        overview.add("numbers", f"from {numbers[0]:g} to {numbers[-1]:g}")
    elif is_labeled:
        try:
            classes_of({n: labels[n] for n in labels if n != _NO_LABEL}, total, settings)
        except ValueError as e:
            overview.problem = str(e)
        _add_labels(overview, labels, total)
    else:
        overview.add("labels", f"none, as in a test set; training needs the column {LABEL}")
    if repeated := total - len(seen):
        others = f"{contradictory:,} of them other labels"
        overview.add("repeated", repeated, f" have the texts of an earlier row, {others}")
    if not total:
        overview.problem = "it has no examples"


def _add_labels(overview: Overview, labels: collections.Counter[str], total: int) -> None:
    """Adds the numbers of the most common labels."""
    for label, own in spellings(labels).items():
        labels[own] += labels.pop(label) if label != own else 0
    for label, count in labels.most_common(_SHOWN_LABELS):
        overview.add(f"label {printable(label)}", count, f" ({count / total:.1%})")
    if (more := len(labels) - _SHOWN_LABELS) > 0:
        overview.add("other labels", more)


def _lines_of(row: LabeledText) -> Iterator[Line]:
    """Yields the lines that show the texts and labels of a row."""
    for name, text in (("text", row.text_a), ("second text", row.text_b)):
        if text:
            yield Line(name, text[: 2 * SHOWN])
    yield Line("label", ", ".join(row.labels) or "none")
