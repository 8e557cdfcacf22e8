"""Your own task, from tables with a label and one or two texts."""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from albert.core.errors import UserError
from albert.core.files import parse_json
from albert.data import TEST, TRAIN
from albert.data.tables import Row, SourceLine, columns, open_table
from albert.tasks.glue.examples import DataProcessor, InputExample, number_of

# JSON can contain a lone surrogate, which UTF-8 cannot encode.
_NOT_IN_A_TABLE = re.compile("[\t\r\n\ud800-\udfff]")
_ENDINGS = (".csv", ".tsv", ".jsonl")
_TEXT_B = "text_b"


class TableOptions(NamedTuple):
    """The columns of a table, and what to predict: a label, a number or any number of labels.

    `separator` is the text between two of several labels in a cell.
    """

    text_column: str = "text_a"
    text_b_column: str = _TEXT_B
    label_column: str = "label"
    is_regression: bool = False
    is_multi_label: bool = False
    separator: str = ","


class TsvProcessor(DataProcessor):
    """A reader of train, dev and test tables in one folder, each CSV, TSV or JSON Lines.

    For classification, the labels are the sorted labels in the training file. Columns or keys other
    than those in the options are ignored. A test set needs no labels.
    """

    def __init__(self, use_spm, do_lower_case, data_dir: str, options: TableOptions):
        super().__init__(use_spm, do_lower_case)
        self._data_dir = data_dir
        self._options = options
        self.is_multi_label = options.is_multi_label
        self.metrics = ("eval_accuracy",)
        if options.is_regression:
            self.metrics = ("pearson", "spearman", "MSE")
        if options.is_multi_label:
            self.metrics = ("micro_f1", "macro_f1")

    @property
    def is_regression(self) -> bool:
        return self._options.is_regression

    # mypy considers a cached property read-only, although it can be set.
    @functools.cached_property
    def labels(self) -> tuple[str, ...]:  # type: ignore[override]
        """Returns the labels in the training file; fewer than two raise a `UserError`."""
        if self.is_regression:
            return ()
        path = self.path(self._data_dir, TRAIN)
        labels = {label for row in self._rows(path, TRAIN) for label in self._labels(*row)}
        if len(labels) < 2:
            known = ", ".join(map(repr, labels)) or "none"
            raise UserError(
                f"{path}: classification needs two different labels, found: {known}; "
                "pass --tsv_regression if labels are numbers"
            )
        return tuple(sorted(labels))

    def path(self, data_dir: str, split: str) -> str:
        """Returns the file of a split; raises a `UserError` unless it exists in one format only."""
        names = [split + ending for ending in _ENDINGS]
        existing = [name for name in names if os.path.exists(os.path.join(data_dir, name))]
        if len(existing) != 1:
            which = " and ".join(existing) or "none"
            raise UserError(f"{data_dir} must have one of {', '.join(names)}, not {which}")
        return os.path.join(data_dir, existing[0])

    def made_from(self) -> dict[str, Any]:
        # None as in headers of earlier versions, which lack these values.
        own, defaults = self._options._asdict(), TableOptions()._asdict()
        return {name: None if own[name] == defaults[name] else own[name] for name in own}

    def _examples(self, path: str, split: str) -> Iterator[InputExample]:
        options, known = self._options, frozenset(self.labels)
        for number, (location, row) in enumerate(self._rows(path, split)):
            text_b = row.get(options.text_b_column)
            if text_b:
                text_b = self.process_text(_text(location, row, options.text_b_column))
            yield InputExample(
                guid=str(number) if split == TEST else f"{split}-{number}",
                text_a=self.process_text(_text(location, row, options.text_column)),
                text_b=text_b or None,
                label=self._unknown() if split == TEST else self._checked(location, row, known),
            )

    def _rows(self, path: str, split: str) -> Iterator[Row]:
        options = self._options
        optional = [options.text_b_column] if options.text_b_column != _TEXT_B else []
        labels = [] if split == TEST else [options.label_column]
        yield from open_table(path).rows([options.text_column, *labels, *optional])

    def _unknown(self) -> str | float | tuple[str, ...]:
        """Returns the label of an example without a label."""
        if self.is_regression:
            return 0.0
        return () if self.is_multi_label else self.labels[0]

    def _checked(
        self, location: SourceLine, row: Mapping[str, Any], known: frozenset[str]
    ) -> str | float | tuple[str, ...]:
        """Returns the label of a row; for several labels, all of them."""
        labels = self._labels(location, row)
        if self.is_regression:
            return number_of(labels[0], location)
        for label in labels:
            if label not in known:
                raise location.error(f"the label is {label!r}, not one of {', '.join(self.labels)}")
        return tuple(labels) if self.is_multi_label else labels[0]

    def _labels(self, location: SourceLine, row: Mapping[str, Any]) -> list[str]:
        """Returns the label of a row, or its labels."""
        value = row.get(self._options.label_column)
        if not self.is_multi_label:
            return [_label(location, value)]
        if isinstance(value, str):
            value = _list_in(value, self._options.separator)
        if not isinstance(value, list):
            raise location.error("label is missing, or not a text or a list")
        return [_label(location, item) for item in value]


def _list_in(cell: str, separator: str) -> list:
    """Returns the items in a cell, which are a JSON list or separated."""
    if cell.lstrip().startswith("["):
        try:
            return parse_json(cell, "a cell")
        except UserError:
            pass
    return [item for item in cell.split(separator) if item.strip()]


def _text(location: SourceLine, row: Mapping[str, Any], key: str) -> str:
    if not isinstance(row.get(key), str):
        raise location.error(f"{key} is missing or not a text; found {columns(row)}")
    if not row[key].strip():
        raise location.error(f"{key} is empty")
    return row[key]


def _label(location: SourceLine, label: object) -> str:
    """Returns a label as it is in the file; a JSON number or Boolean keeps its JSON form."""
    if isinstance(label, bool | int | float):
        label = json.dumps(label)
    if not isinstance(label, str) or not label.strip():
        raise location.error("label is missing")
    label = label.strip()
    if _NOT_IN_A_TABLE.search(label):
        raise location.error(f"the label {label!r} has a tab, a line end or half a surrogate pair")
    return label
