"""The overview of a table of labels for `albert data check`."""

from __future__ import annotations

import collections
from collections.abc import Iterator
from typing import TYPE_CHECKING

from albert.core.text import printable
from albert.tables.bad_rows import BadRows
from albert.tables.overview import SHOWN, Line, Overview, TokenCounts, columns_of
from albert.tables.tables import open_table
from albert.tasks.glue.label_tables import (
    LABEL,
    LabeledText,
    TableOptions,
    classes_of,
    parse_number,
    read_labeled,
    spellings,
    value_of,
)

# The check does not need TensorFlow without a tokenizer.
if TYPE_CHECKING:
    from albert.tokenization import FullTokenizer

_SHOWN_LABELS = 20
_NO_LABEL = "(no label)"


def overview_of(
    path: str,
    num_examples: int,
    on_bad_row: str,
    tokenizer: FullTokenizer | None,
    max_seq_length: int,
    options: TableOptions,
) -> Overview:
    """Returns the overview of a table as a training reads it; with a tokenizer, counts tokens.

    Raises a `UserError` if the table is not valid, or lacks a column.
    """
    table, bad = open_table(path), BadRows(path, on_bad_row)
    # A test set needs no labels.
    is_labeled = bool(options.label_column)
    total, contradictory, truncated = 0, 0, 0
    labels, seen = collections.Counter[str](), dict[int, int]()
    tokens = TokenCounts(tokenizer.unk_id) if tokenizer else None
    examples = list[tuple[str, list[Line]]]()
    for row in read_labeled(path, options, bad, is_labeled):
        total += 1
        labels.update(row.labels or ([_NO_LABEL] if options.is_multi_label else []))
        # Numbers take less memory than the texts.
        own = hash(frozenset(map(value_of, row.labels)))
        contradictory += own != seen.setdefault(hash((row.text_a, row.text_b)), own)
        if tokenizer and tokens:
            texts = tokenizer.encode(text for text in (row.text_a, row.text_b) if text)
            for ids in texts:
                tokens.add(ids)
            truncated += sum(map(len, texts)) + len(texts) + 1 > max_seq_length
        if len(examples) < num_examples:
            examples.append((row.location.name, list(_lines_of(row))))
    used = *options[:2], *(options.label_columns or options[2:3])
    rows, problem = [*columns_of(table, used), ("texts", f"{total:,}")], ""
    if options.is_regression and labels:
        numbers = sorted(map(parse_number, labels))
        rows.append(("numbers", f"from {numbers[0]:g} to {numbers[-1]:g}"))
    elif is_labeled:
        try:
            classes_of({n: labels[n] for n in labels if n != _NO_LABEL}, total, options)
        except ValueError as e:
            problem = str(e)
        rows += _shares(labels, total)
    rows += [("note", printable(f"{note}: {count:,}")) for note, count in bad.notes.items()]
    bad.notes.clear()
    if not is_labeled:
        rows.append(("labels", f"none, as in a test set; training needs the column {LABEL}"))
    if repeated := total - len(seen):
        others = f"{contradictory:,} of them other labels"
        rows.append(("repeated", f"{repeated:,} have the texts of an earlier row, {others}"))
    if tokens:
        rows += [tokens.row(), ("truncated", f"{truncated:,} of more than {max_seq_length} tokens")]
    if not total:
        problem = "it has no examples"
    return Overview(table.format, rows, examples, bad, problem)


def _shares(labels: collections.Counter[str], total: int) -> Iterator[tuple[str, str]]:
    """Yields rows with the numbers of the most common labels."""
    for label, own in spellings(labels).items():
        labels[own] += labels.pop(label) if label != own else 0
    for label, count in labels.most_common(_SHOWN_LABELS):
        yield f"label {printable(label)}", f"{count:,} ({count / total:.1%})"
    if (more := len(labels) - _SHOWN_LABELS) > 0:
        yield "other labels", f"{more:,}"


def _lines_of(row: LabeledText) -> Iterator[Line]:
    """Yields the lines that show the texts and labels of a row."""
    for name, text in (("text", row.text_a), ("second text", row.text_b)):
        if text:
            yield Line(name, text[: 2 * SHOWN])
    yield Line("label", ", ".join(row.labels) or "none")
