"""Your own task, from tables with a label and one or two texts."""

from __future__ import annotations

import collections
import functools
import os
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

from albert.core.errors import FlagError, UserError
from albert.core.files import content_of, file_of_split
from albert.core.log import LOG
from albert.records import DEV, TRAIN
from albert.records.feature_file import sha256_of_inputs
from albert.settings.fields import Affects
from albert.settings.text_settings import USUAL_FRACTION
from albert.tables.bad_rows import BadRows
from albert.tables.dev_split import FEWEST_TEXTS, DevSplit, made_from
from albert.tables.tables import open_table
from albert.tasks.glue.examples import DataProcessor, InputExample
from albert.tasks.glue.label_tables import (
    COLUMNS,
    classes_of,
    find_columns,
    parse_number,
    read_labeled,
    value_of,
)
from albert.tasks.glue.settings import GlueSettings, TableSettings

# What a run without training has from its model.
_OF_MODEL = ("max_seq_length", *COLUMNS, "label_columns")


def with_own_data(settings: GlueSettings, known: Mapping[str, Any]) -> GlueSettings:
    """Returns settings with the columns and the development part of the tables in --data_dir.

    What is not given comes from what is known of the model if it is not trained, and else from the
    tables. Raises a `UserError` if tables are missing, or it is not clear which columns to use.
    """
    trains, folder, given = settings.do_train, settings.data_dir, set(settings.given)
    has_dev = os.path.isdir(folder) and bool(file_of_split(folder, DEV))
    path, values = table_of(folder, DEV if has_dev and not trains else TRAIN), dict[str, Any]()
    if not trains:
        names = [*_OF_MODEL]
        if not has_dev and known.get("train_file") == content_of(path):
            # Without the split, most of the texts to score on would be those of the training.
            names += ["dev_fraction", "dev_seed"]
        values = {name: known[name] for name in names if name in known and name not in given}
        labels = tuple(values.pop("label_columns", None) or ())
        if labels and "label_column" not in given:
            values |= {"label_columns": labels, "multi_label": True}
    elif settings.do_eval and not (has_dev or settings.dev_fraction):
        if "dev_fraction" in given:
            raise FlagError(
                f"--dev_fraction=0 leaves no text of {path} to score on; add --do_eval=false, or "
                "pass a folder with train.csv and dev.csv"
            )
        values["dev_fraction"] = USUAL_FRACTION
        LOG.info("%s: a fifth of the texts is for the scores (--dev_fraction)", path)
    settings = settings.replaced(**values)
    return find_columns(open_table(path), settings.checked(), given | values.keys())


def table_of(folder: str, split: str) -> str:
    """Returns the table of a split, or `folder` if it is a table; a `UserError` if it is none."""
    if os.path.isfile(folder):
        return folder
    if not (path := file_of_split(folder, split)):
        names = ", ".join(f"{split}.{ending}" for ending in ("csv", "tsv", "jsonl", "parquet"))
        raise UserError(f"{folder} has no table for {split}: it must have one of {names}")
    return path


class _Survey(NamedTuple):
    """What the only pass over a table has found: numbers of usable rows, in all and by label.

    `parts` has the texts and labels of the rows in the development part, if any, and of the others,
    until they are used.
    """

    rows: int
    labels: Mapping[str, int]
    has_pairs: bool
    parts: dict[bool, list[Any]]


class TsvProcessor(DataProcessor):
    """A reader of train and dev tables in one folder, each CSV, TSV, JSON Lines or Parquet.

    For classification, the labels are the sorted labels in the training file. Columns or keys that
    the settings do not name are ignored. With --dev_fraction, the development set is a part of the
    training table. --data_dir may also be a table, for both.
    """

    def __init__(self, use_spm: bool, do_lower_case: bool, settings: GlueSettings):
        super().__init__(use_spm, do_lower_case)
        self.sha256_of = functools.cache(sha256_of_inputs)
        self._settings, self._data_dir = settings, settings.data_dir
        self._dev_split, self._survey = DevSplit.of(settings), functools.cache(self._read)
        self.is_multi_label = settings.multi_label
        if settings.tsv_regression:
            self.metrics = ("pearson", "spearman", "MSE")
        if settings.multi_label:
            self.metrics = ("micro_f1", "macro_f1")

    @property
    def is_regression(self) -> bool:
        return self._settings.tsv_regression

    @property
    def columns(self) -> dict[str, Any]:
        """Returns the columns of the training table that the model needs again, by flag."""
        names = ["text_column", "label_columns" if self._settings.label_columns else "label_column"]
        names += ["text_b_column"] * self._survey(self._train_file).has_pairs
        return {name: getattr(self._settings, name) for name in names}

    # mypy considers a cached property read-only, although it can be set.
    @functools.cached_property
    def labels(self) -> tuple[str, ...]:  # type: ignore[override]
        """Returns the labels in the training file; raises a `UserError` if they are none."""
        if self.is_regression:
            return ()
        survey = self._survey(self._train_file)
        try:
            return classes_of(survey.labels, survey.rows, self._settings)
        except ValueError as e:
            raise UserError(f"{self._train_file}: {e}") from e

    @property
    def _train_file(self) -> str:
        return table_of(self._data_dir, TRAIN)

    def files_of(self, data_dir: str, split: str) -> list[str]:
        """Returns the file of a split; raises a `UserError` unless it exists in one format only."""
        if split == DEV and self._dev_split:
            if os.path.isdir(data_dir) and (dev := file_of_split(data_dir, DEV)):
                raise FlagError(f"--dev_fraction replaces {dev}: remove the flag or the file")
            split = TRAIN
        return [table_of(data_dir, split)]

    def made_from(self) -> dict[str, Any]:
        own = self._settings.affecting(Affects.FEATURES)
        return {**{name: own[name] for name in TableSettings.flags()}, **made_from(self._dev_split)}

    def read_files(self, files: Sequence[str], split: str) -> list[InputExample]:
        (path,), is_dev = files, bool(self._dev_split) and split == DEV
        parts = self._survey(path).parts
        # A part is kept until it is used; afterwards it takes another pass.
        parts = parts if is_dev in parts else self._read(path).parts
        if not (rows := parts.pop(is_dev)):
            raise UserError(f"{path} has no examples")
        if is_dev:
            # Those for training, which come first, were not needed.
            parts.clear()
        # Those of a training table may have other spellings.
        own = {key: label for label in self.labels for key in (value_of(label), label)}
        for number, (text_a, text_b, labels) in enumerate(rows):
            texts = self.process_text(text_a), self.process_text(text_b) or None
            # In their place, because there may be millions.
            rows[number] = InputExample(f"{split}-{number}", *texts, self._label(labels, own))
        return rows

    def release(self) -> None:
        """Drops the rows for training, which nothing reads if their features are reused."""
        if self._survey.cache_info().currsize:
            self._survey(self._train_file).parts.pop(False, None)

    def _read(self, path: str) -> _Survey:
        table, settings, known = open_table(path), self._settings, None
        # Before the rows, so that it is not the hash of later content.
        self.sha256_of(path)
        if not self.is_regression and ("labels" in vars(self) or path != self._train_file):
            known = frozenset(self.labels)
        bad = BadRows(path, settings.on_bad_row)
        rows = [row[1:] for row in read_labeled(table, settings, bad, known=known)]
        bad.finish()
        counts = collections.Counter(label for *_, labels in rows for label in labels)
        has_pairs = any(text_b for _, text_b, _ in rows)
        return _Survey(len(rows), counts, has_pairs, self._parts(rows, path))

    def _parts(self, rows: list[Any], path: str) -> dict[bool, list[Any]]:
        if not (split := self._dev_split):
            return {False: rows}
        if (count := len({text_a for text_a, *_ in rows})) < FEWEST_TEXTS:
            raise UserError(
                f"{path} has {count} different texts, too few to train on and to score on; add "
                "rows (20 of each label are a beginning), or pass a folder with train.csv and "
                "dev.csv"
            )
        is_single = not (self.is_regression or self.is_multi_label)
        texts = ((text, value_of(labels[0]) if is_single else None) for text, _, labels in rows)
        dev, parts = split.chosen(texts, path), {False: list[Any](), True: list[Any]()}
        for row in rows:
            parts[split.rank(row[0]) in dev].append(row)
        return parts

    def _label(self, labels: Sequence[str], own: Mapping[Hashable, str]) -> Any:
        """Returns the label of an example, its number, or its labels, in their `own` spellings."""
        if self.is_regression:
            return parse_number(labels[0])
        names = tuple(own.get(label) or own[value_of(label)] for label in labels)
        return names if self.is_multi_label else names[0]
