"""Your own task, from tables with a label and one or two texts."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Sequence
from typing import Any

from albert.core.errors import FlagError, UserError
from albert.data import DEV, TEST, TRAIN
from albert.data.bad_rows import ERROR, BadRows
from albert.data.dev_split import DevSplit, made_from
from albert.tasks.glue.examples import DataProcessor, InputExample
from albert.tasks.glue.label_tables import LabeledText, TableOptions, parse_number, read_labeled

_ENDINGS = (".csv", ".tsv", ".jsonl")


class TsvProcessor(DataProcessor):
    """A reader of train, dev and test tables in one folder, each CSV, TSV or JSON Lines.

    For classification, the labels are the sorted labels in the training file. Columns or keys other
    than those in the options are ignored. A test set needs no labels. With a
    `dev_split`, the development set is a part of the training table.
    """

    def __init__(
        self,
        use_spm,
        do_lower_case,
        data_dir: str,
        options: TableOptions,
        dev_split: DevSplit | None = None,
    ):
        super().__init__(use_spm, do_lower_case)
        self._data_dir = data_dir
        self._options, self._dev_split = options, dev_split
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
        bad = BadRows(path, self._options.on_bad_row)
        rows = read_labeled(path, self._options, bad)
        labels = {label for row in rows for label in row.labels}
        if bad.action == ERROR:
            # Otherwise, the second pass logs them.
            bad.finish()
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
        if split == DEV and self._dev_split:
            if existing:
                which = os.path.join(data_dir, existing[0])
                raise FlagError(f"--dev_fraction replaces {which}: remove the flag or the file")
            return self.path(data_dir, TRAIN)
        if len(existing) != 1:
            which = " and ".join(existing) or "none"
            if split == DEV and not existing:
                which += "; --dev_fraction=0.2 uses a fifth of the training table instead"
            raise UserError(f"{data_dir} must have one of {', '.join(names)}, not {which}")
        return os.path.join(data_dir, existing[0])

    def made_from(self) -> dict[str, Any]:
        # None as in headers of earlier versions, which lack these values.
        own, defaults = self._options._asdict(), TableOptions()._asdict()
        made = {name: None if own[name] == defaults[name] else own[name] for name in own}
        return {**made, **made_from(self._dev_split)}

    @functools.cached_property
    def _dev_limit(self) -> bytes:
        assert self._dev_split
        path = self.path(self._data_dir, TRAIN)
        rows = read_labeled(path, self._options, BadRows(path, self._options.on_bad_row))
        return self._dev_split.limit((row.text_a for row in rows), path)

    def _is_in(self, split: str, row: LabeledText) -> bool:
        """Returns whether a row of the file of a split is in it."""
        if split == TEST or not self._dev_split:
            return True
        return (self._dev_split.rank(row.text_a) <= self._dev_limit) == (split == DEV)

    def _examples(self, path: str, split: str) -> Iterator[InputExample]:
        is_test = split == TEST
        bad = BadRows(path, self._options.on_bad_row)
        if is_test:
            # Its predictions have the order of its rows.
            bad = BadRows(path, ERROR, choices=[ERROR])
        known = None if self.is_regression or is_test else frozenset(self.labels)
        rows = read_labeled(path, self._options, bad, not is_test, known)
        for number, row in enumerate(row for row in rows if self._is_in(split, row)):
            yield InputExample(
                guid=str(number) if is_test else f"{split}-{number}",
                text_a=self.process_text(row.text_a),
                text_b=self.process_text(row.text_b) or None,
                label=self._label_of(row, is_test),
            )
        bad.finish()

    def _label_of(self, row: LabeledText, is_test: bool) -> str | float | Sequence[str]:
        """Returns the label of a row, or its labels; any label if it is not known."""
        if self.is_regression:
            return 0.0 if is_test else parse_number(row.labels[0])
        if self.is_multi_label:
            return tuple(row.labels)
        return self.labels[0] if is_test else row.labels[0]
