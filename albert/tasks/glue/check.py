"""The overview of a table of labels for `albert data check`."""

from __future__ import annotations

import collections
from collections.abc import Iterator
from typing import TYPE_CHECKING

from albert.core.text import printable
from albert.data.bad_rows import BadRows
from albert.data.overview import SHOWN, Line, Overview, TokenCounts, columns_of
from albert.data.tables import open_table
from albert.tasks.glue.label_tables import LabeledText, TableOptions, parse_number, read_labeled

# The check does not need TensorFlow without a tokenizer.
if TYPE_CHECKING:
    from albert.tokenization import FullTokenizer

_SHOWN_LABELS = 20


def overview_of(
    path: str,
    num_examples: int,
    options: TableOptions,
    tokenizer: FullTokenizer | None,
    max_seq_length: int,
) -> Overview:
    """Returns the overview of a table as a training reads it; with a tokenizer, counts tokens.

    Raises a `UserError` if the table is not valid, or lacks a column.
    """
    bad, table = BadRows(path, options.on_bad_row), open_table(path)
    # A test set needs no labels.
    is_labeled = options.label_column in table.columns
    counts = _Counts(options, tokenizer, max_seq_length)
    examples = list[tuple[str, list[Line]]]()
    for row in read_labeled(path, options, bad, is_labeled):
        counts.add(row)
        if len(examples) < num_examples:
            examples.append((row.location.name, list(_lines_of(row))))
    columns = columns_of(table, options[:3])
    return Overview(table.format, [*columns, *counts.rows()], examples, bad)


class _Counts:
    """Counts labels, repeated texts and, with a tokenizer, tokens."""

    def __init__(self, options: TableOptions, tokenizer: FullTokenizer | None, length: int):
        self._options, self._tokenizer, self._length = options, tokenizer, length
        self._labels, self._seen = collections.Counter[str](), dict[int, int]()
        self._total = self._truncated = self._repeated = self._contradictory = 0
        self._tokens = TokenCounts(tokenizer.unk_id) if tokenizer else None

    def add(self, row: LabeledText) -> None:
        self._total += 1
        self._labels.update(row.labels or (["(no label)"] if self._options.is_multi_label else []))
        # Numbers take less memory than the texts.
        labels = hash(tuple(sorted(row.labels)))
        first = self._seen.setdefault(hash((row.text_a, row.text_b)), labels)
        self._repeated += len(self._seen) + self._repeated < self._total
        self._contradictory += first != labels
        if self._tokenizer and self._tokens:
            texts = self._tokenizer.encode(text for text in (row.text_a, row.text_b) if text)
            for ids in texts:
                self._tokens.add(ids)
            self._truncated += sum(map(len, texts)) + len(texts) + 1 > self._length

    def rows(self) -> Iterator[tuple[str, str]]:
        yield "texts", f"{self._total:,}"
        if self._options.is_regression and self._labels:
            numbers = sorted(map(parse_number, self._labels))
            yield "numbers", f"from {numbers[0]:g} to {numbers[-1]:g}"
        elif self._labels:
            for label, count in self._labels.most_common(_SHOWN_LABELS):
                yield f"label {printable(label)}", f"{count:,} ({count / self._total:.1%})"
            if (more := len(self._labels) - _SHOWN_LABELS) > 0:
                yield "other labels", f"{more:,}"
        if self._repeated:
            yield (
                "repeated",
                f"{self._repeated:,} have the texts of an earlier row, {self._contradictory:,} of "
                "them other labels",
            )
        if self._tokens:
            yield self._tokens.row()
            yield "truncated", f"{self._truncated:,} of more than {self._length} tokens"


def _lines_of(row: LabeledText) -> Iterator[Line]:
    """Yields the lines that show the texts and labels of a row."""
    for name, text in (("text", row.text_a), ("second text", row.text_b)):
        if text:
            yield Line(name, text[: 2 * SHOWN])
    yield Line("label", ", ".join(row.labels) or "none")
