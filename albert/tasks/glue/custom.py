"""One's own task, from TSV or JSONL files with `label`, `text_a` and perhaps `text_b`."""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from albert.core.errors import UserError
from albert.data.rows import SourceLine, read_json_lines, read_tsv_records
from albert.tasks.glue.examples import DataProcessor, InputExample
from albert.training.task import TEST, TRAIN

# Half of a character is what JSON can hold and UTF-8 cannot.
_NOT_IN_A_TABLE = re.compile("[\t\r\n\ud800-\udfff]")
_READERS = {".tsv": read_tsv_records, ".jsonl": read_json_lines}


class TsvProcessor(DataProcessor):
    """Reads train, dev and test, each a .tsv with a header or a .jsonl, from one folder.

    The labels of classification are those of the training file, sorted. Columns and keys with
    other names than `label`, `text_a` and `text_b` do not count; a test set needs no label.
    """

    def __init__(self, use_spm, do_lower_case, data_dir: str, is_regression: bool):
        """Takes the folder of the files; `use_spm` and `do_lower_case` as in `DataProcessor`."""
        super().__init__(use_spm, do_lower_case)
        self._data_dir = data_dir
        self._is_regression = is_regression
        self.metrics = ("pearson", "spearman", "MSE") if is_regression else ("eval_accuracy",)

    @property
    def is_regression(self) -> bool:
        return self._is_regression

    # To mypy a cached property is read-only, which it is not.
    @functools.cached_property
    def labels(self) -> tuple[str, ...]:  # type: ignore[override]
        """Returns the labels of the training file.

        Raises:
          UserError: they are not at least two, or the file is not as it should be.
        """
        if self._is_regression:
            return ()
        path = self.path(self._data_dir, TRAIN)
        labels = {_label(place, record) for place, record in self._records(path)}
        if len(labels) < 2:
            found = ", ".join(map(repr, labels)) or "none"
            raise UserError(
                f"{path}: two different labels are needed for classification, found: {found}; "
                "for numbers give --tsv_regression"
            )
        return tuple(sorted(labels))

    def path(self, data_dir: str, part: str) -> str:
        """Returns the file of a part of the data set: "train", "dev" or "test".

        Raises:
          UserError: there is none, or there are two.
        """
        names = [os.path.join(data_dir, part + ending) for ending in _READERS]
        found = [name for name in names if os.path.exists(name)]
        if len(found) != 1:
            which = "both are there, keep one" if found else "neither is there"
            raise UserError(f"one of {' and '.join(names)} is needed: {which}")
        return found[0]

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
    def _records(path: str) -> Iterator[tuple[SourceLine, Mapping[str, Any]]]:
        return _READERS[os.path.splitext(path)[1]](path)


def _text(place: SourceLine, record: Mapping[str, Any], key: str) -> str:
    if not isinstance(record.get(key), str):
        raise place.error(f"{key} is missing, or no text; there are {', '.join(map(str, record))}")
    return record[key]


def _label(place: SourceLine, record: Mapping[str, Any]) -> str:
    """Returns the label as in the file; one that is not text in JSON is as JSON writes it."""
    label = record.get("label")
    if isinstance(label, bool | int | float):
        label = json.dumps(label)
    if not isinstance(label, str) or not label.strip():
        raise place.error("label is missing")
    label = label.strip()
    if _NOT_IN_A_TABLE.search(label):
        raise place.error(f"the label {label!r} has a tab, a line end or half of a character")
    return label
