"""An example of a classification task, and the processors that read its files."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import tensorflow.compat.v1 as tf

from albert.core.errors import UserError
from albert.data.rows import SourceLine, read_tsv
from albert.tasks.classification.examples import Processor
from albert.training.task import TEST


class InputExample:
    """A text or a pair of texts, and its label.

    Attributes:
      guid: the example's id; in a test set, its index in GLUE's submission.
      text_a, text_b: the texts; text_b is None where a task has one.
      label: one of the processor's labels; a float in regression.
    """

    def __init__(self, guid, text_a, text_b=None, label=None):
        self.guid = guid
        self.text_a = text_a
        self.text_b = text_b
        self.label = label

    def __repr__(self) -> str:
        return f"InputExample({self.guid!r}, {self.text_a!r}, {self.text_b!r}, {self.label!r})"


class Columns(NamedTuple):
    """A file of a data set and its columns, counted from 0, or from the end if negative.

    Attributes:
      file: its name.
      text_a, text_b, label: columns; None for what it has not.
      guid: column of the id, None if rows are numbered.
      has_header: whether the first line is not an example.
    """

    file: str
    text_a: int
    text_b: int | None = None
    label: int | None = None
    guid: int | None = None
    has_header: bool = True

    def width(self) -> int:
        """Counts the columns that a row needs, as far as the numbers from the left tell."""
        return 1 + max(
            n for n in (self.text_a, self.text_b, self.label, self.guid) if n is not None
        )


class DataProcessor(Processor):
    """Reads the files of a task.

    Attributes:
      folder: of the task's files, below --data_dir.
      labels: in the order of their ids; none for regression.
      metrics: names of scores, see `glue.metrics`; the first tells which checkpoint is best.
      files: what the parts of the data set lie in.
      submission: what GLUE calls the test predictions.
      limits: the least and the greatest number that GLUE takes in regression, if it has any.
    """

    folder: ClassVar[str] = ""
    submission: ClassVar[str] = ""
    limits: ClassVar[tuple[float, float] | None] = None
    labels: Sequence[str] = ()
    metrics: Sequence[str] = ("eval_accuracy",)
    files: ClassVar[dict[str, Columns]] = {}
    # Whether a row of training or development that is too short is left out, not an error.
    skips_short_rows: ClassVar[bool] = False

    def get_labels(self) -> list[str | None]:
        """Returns the labels in the order of their ids; only None for regression."""
        return list(self.labels) or [None]

    @property
    def is_regression(self) -> bool:
        """Tells whether labels are numbers."""
        return self.get_labels() == [None]

    def path(self, data_dir: str, part: str) -> str:
        """Returns the file of a part of the data set: "train", "dev" or "test".

        Raises:
          UserError: the task has no such part.
        """
        if part not in self.files:
            raise UserError(f"{self.folder} has no {part} set, only {', '.join(self.files)}")
        return os.path.join(data_dir, self.folder, self.files[part].file)

    def files_of(self, data_dir: str, part: str) -> list[str]:
        return [self.path(data_dir, part)]

    def read_files(self, files: Sequence[str], part: str) -> list[InputExample]:
        (path,) = files
        return self.read_examples(path, part)

    @staticmethod
    def id_of(example: InputExample) -> str:
        return example.guid

    @staticmethod
    def display_parts(example: InputExample) -> dict[str, Any]:
        texts = [text for text in (example.text_a, example.text_b) if text is not None]
        return {"id": example.guid, "passage": None, "texts": texts}

    def read_examples(self, path: str, part: str) -> list[InputExample]:
        """Reads the examples of the file of a part; raises as `get_train_examples` does."""
        examples = list(self._examples(path, part))
        if not examples:
            raise UserError(f"{path} has no examples")
        return examples

    def _examples(self, path: str, part: str) -> Iterator[InputExample]:
        columns = self.files[part]
        width, left_out = columns.width(), []
        for number, (place, row) in enumerate(read_tsv(path)):
            if number == 0 and columns.has_header:
                width = max(width, len(row))
            elif len(row) >= width:
                yield self._example(f"{part}-{number}", row, columns, place)
            elif self.skips_short_rows and part != TEST:
                left_out.append(place.line)
            else:
                raise place.error(f"{len(row)} columns, {width} are needed")
        if left_out:
            tf.logging.warning(
                "%s: %d rows with too few columns are left out, the first is line %d",
                path,
                len(left_out),
                left_out[0],
            )

    def _example(
        self, guid: str, row: list[str], columns: Columns, place: SourceLine
    ) -> InputExample:
        return InputExample(
            guid=guid if columns.guid is None else row[columns.guid],
            text_a=self.process_text(row[columns.text_a]),
            text_b=None if columns.text_b is None else self.process_text(row[columns.text_b]),
            label=self.label_of(
                None if columns.label is None else self.process_text(row[columns.label]), place
            ),
        )

    def label_of(self, text: str | None, place: SourceLine) -> str | float:
        """Returns the label that stands in a file; the first one, or 0, where there is none.

        Raises:
          UserError: it is none of the task's labels, or no number in regression.
        """
        labels = [label for label in self.get_labels() if label is not None]
        if text is None:
            return 0.0 if self.is_regression else labels[0]
        if self.is_regression:
            return _number(text, place)
        if text not in labels:
            raise place.error(f"the label is {text!r}, not one of {', '.join(labels)}")
        return text


def _number(text: str, place: SourceLine) -> float:
    """Reads a finite number."""
    try:
        value = float(text)
    except ValueError as e:
        raise place.error(f"the label is {text!r}, not a number") from e
    if not math.isfinite(value):
        raise place.error(f"the label is {text!r}; a finite number is needed")
    return value
