"""Your own task, from tables with `label`, `text_a` and optionally `text_b`."""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from albert.core.errors import UserError
from albert.data.rows import SourceLine
from albert.data.tables import Row, open_table
from albert.tasks.glue.examples import DataProcessor, InputExample
from albert.training.task import TEST, TRAIN

# JSON can contain a lone surrogate, which UTF-8 cannot encode.
_NOT_IN_A_TABLE = re.compile("[\t\r\n\ud800-\udfff]")
_ENDINGS = (".csv", ".tsv", ".jsonl")


class TsvProcessor(DataProcessor):
    """A reader of train, dev and test tables in one folder, each CSV, TSV or JSON Lines.

    For classification, the labels are the sorted labels in the training file. Columns or keys other
    than `label`, `text_a` and `text_b` are ignored. A test set needs no labels.
    """

    def __init__(self, use_spm, do_lower_case, data_dir: str, is_regression: bool):
        """Makes a processor for a folder; for `use_spm` and `do_lower_case` see `DataProcessor`."""
        super().__init__(use_spm, do_lower_case)
        self._data_dir = data_dir
        self._is_regression = is_regression
        self.metrics = ("pearson", "spearman", "MSE") if is_regression else ("eval_accuracy",)

    @property
    def is_regression(self) -> bool:
        return self._is_regression

    # mypy considers a cached property read-only, although it can be set.
    @functools.cached_property
    def labels(self) -> tuple[str, ...]:  # type: ignore[override]
        """Returns the labels in the training file.

        Raises:
          UserError: there are fewer than two labels, or the file is invalid.
        """
        if self._is_regression:
            return ()
        path = self.path(self._data_dir, TRAIN)
        labels = {_label(place, record) for place, record in self._records(path)}
        if len(labels) < 2:
            found = ", ".join(map(repr, labels)) or "none"
            raise UserError(
                f"{path}: classification needs two different labels, found: {found}; "
                "pass --tsv_regression if labels are numbers"
            )
        return tuple(sorted(labels))

    def path(self, data_dir: str, part: str) -> str:
        """Returns the file of a split, "train", "dev" or "test".

        Raises:
          UserError: the file does not exist, or it exists in several formats.
        """
        names = [part + ending for ending in _ENDINGS]
        found = [name for name in names if os.path.exists(os.path.join(data_dir, name))]
        if len(found) != 1:
            which = " and ".join(found) or "none"
            raise UserError(f"{data_dir} must have one of {', '.join(names)}, not {which}")
        return os.path.join(data_dir, found[0])

    def _examples(self, path: str, part: str) -> Iterator[InputExample]:
        for number, (place, record) in enumerate(self._records(path)):
            text_b = _text(place, record, "text_b") if record.get("text_b") else None
            label = None if part == TEST else _label(place, record)
            yield InputExample(
                guid=str(number) if part == TEST else f"{part}-{number}",
                text_a=self.process_text(_text(place, record, "text_a")),
                text_b=None if text_b is None else self.process_text(text_b),
                label=self.label_of(label, place),
            )

    @staticmethod
    def _records(path: str) -> Iterator[Row]:
        return open_table(path).rows()


def _text(place: SourceLine, record: Mapping[str, Any], key: str) -> str:
    if not isinstance(record.get(key), str):
        raise place.error(f"{key} is missing or not a text; found {', '.join(map(str, record))}")
    return record[key]


def _label(place: SourceLine, record: Mapping[str, Any]) -> str:
    """Returns the label as it is in the file; a JSON number or Boolean keeps its JSON form."""
    label = record.get("label")
    if isinstance(label, bool | int | float):
        label = json.dumps(label)
    if not isinstance(label, str) or not label.strip():
        raise place.error("label is missing")
    label = label.strip()
    if _NOT_IN_A_TABLE.search(label):
        raise place.error(f"the label {label!r} has a tab, a line end or half a surrogate pair")
    return label
