"""Examples of classification tasks, and the base class of the processors that read them."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import tensorflow.compat.v1 as tf

from albert.core.errors import UserError
from albert.records import TEST
from albert.tables.tables import SourceLine, read_tsv
from albert.tasks.classification.examples import Processor
from albert.tasks.glue.label_tables import parse_number


@dataclasses.dataclass(eq=False)
class InputExample:
    """A text or a pair of texts with its label.

    Attributes:
      guid: id of the example; for a test set, its index in GLUE's submission.
      text_b: None for tasks with single texts.
      label: one of the processor's labels; a float for regression; a tuple for several labels.
    """

    guid: Any
    text_a: Any
    text_b: Any = None
    label: Any = None


class Columns(NamedTuple):
    """The columns of a file, numbered from 0, or from -1 backwards from the last.

    None means that the file does not have the column; without `guid`, rows are numbered.
    """

    text_a: int
    text_b: int | None = None
    label: int | None = None
    guid: int | None = None
    has_header: bool = True
    file: str = ""


class DataProcessor(Processor):
    """A reader of a task's files.

    Attributes:
      folder: folder of the task's files in --data_dir.
      metrics: names of scores, see `classification.metrics`; the first selects the checkpoint.
      submission: name of the test predictions in a submission to GLUE; by default, the folder's.
      limits: for regression, the range of numbers that GLUE accepts; None if unlimited.
      rows: the row of each label in the head of a model that is not trained; empty in training.
    """

    folder: ClassVar[str] = ""
    submission: ClassVar[str] = ""
    limits: ClassVar[tuple[float, float] | None] = None
    rows: list[int] = []
    metrics: Sequence[str] = ("eval_accuracy",)
    files: ClassVar[dict[str, Columns]] = {}
    # Whether to skip rows of training or development that are too short; otherwise they are errors.
    skips_short_rows: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        if cls.folder and "submission" not in vars(cls):
            cls.submission = f"{cls.folder}.tsv"

    @property
    def is_regression(self) -> bool:
        """Returns whether labels are numbers."""
        return self.get_labels() == [None]

    def made_from(self) -> dict[str, Any]:
        """Returns values that features depend on, in addition to those of all tasks."""
        return {}

    def files_of(self, data_dir: str, split: str) -> list[str]:
        if split not in self.files:
            raise UserError(f"{self.folder} has no {split} set, only {', '.join(self.files)}")
        path = os.path.join(data_dir, self.folder, self.files[split].file)
        if not os.path.exists(path):
            command = f"albert download glue --data_dir={data_dir} --tasks={self.folder}"
            raise UserError(f"{path} does not exist; `{command}` downloads it")
        return [path]

    def read_files(self, files: Sequence[str], split: str) -> list[InputExample]:
        examples = list(self._examples(files[0], split))
        if not examples:
            raise UserError(f"{files[0]} has no examples")
        return examples

    @staticmethod
    def display_parts(example: InputExample) -> dict[str, Any]:
        texts = [text for text in (example.text_a, example.text_b) if text is not None]
        return {"id": example.guid, "passage": None, "texts": texts}

    def _examples(self, path: str, split: str) -> Iterator[InputExample]:
        columns = self.files[split]
        # Negative numbers do not count.
        width, left_out = 1 + max(n for n in columns[:4] if n is not None), []
        for number, (location, row) in enumerate(read_tsv(path)):
            if number == 0 and columns.has_header:
                width = max(width, len(row))
            elif len(row) >= width:
                guid = f"{split}-{number}" if columns.guid is None else row[columns.guid]
                numbers = columns.text_a, columns.text_b, columns.label
                cells = (None if n is None else self.process_text(row[n]) for n in numbers)
                text_a, text_b, label = cells
                yield InputExample(guid, text_a, text_b, self._label_of(label, location))
            elif self.skips_short_rows and split != TEST:
                left_out.append(location.line)
            else:
                raise location.error(f"{len(row)} columns, but {width} are needed")
        if left_out:
            rows = f"skipped {len(left_out)} rows with too few columns"
            tf.logging.warning("%s: %s, the first in line %d", path, rows, left_out[0])

    def _label_of(self, text: str | None, location: SourceLine) -> str | float:
        """Returns the label for the text in a file; without a text, the first label or 0.

        Raises:
          UserError: the text is not a label of the task or, for regression, not a number.
        """
        if text is None:
            return self.labels[0] if self.labels else 0.0
        if not self.labels:
            try:
                return parse_number(text)
            except ValueError as e:
                raise location.error(": ".join(e.args)) from e
        if text not in self.labels:
            raise location.error(f"the label is {text!r}, not one of {', '.join(self.labels)}")
        return text
