"""The base class of the processors that read the files of a data set."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

from albert import tokenization
from albert.records import DEV, TEST, TRAIN


class Processor(abc.ABC):
    """A reader of a data set's files.

    Attributes:
      labels: labels in the order of their ids; empty for regression.
      is_multi_label: whether examples have any number of labels.
      keep_accents: see `preprocess_text`.
    """

    labels: Sequence[str] = ()
    is_multi_label = False
    keep_accents = False

    def __init__(self, use_spm, do_lower_case):
        """Sets whether to normalize texts for SentencePiece, and whether that lower-cases them."""
        self.use_spm = use_spm
        self.do_lower_case = do_lower_case

    def get_train_examples(self, data_dir: str) -> list[Any]:
        """Returns the training set; raises a `UserError` if it is missing or a file is invalid."""
        return self.read_files(self.files_of(data_dir, TRAIN), TRAIN)

    def get_dev_examples(self, data_dir: str) -> list[Any]:
        """Returns the development set; raises the errors of `get_train_examples`."""
        return self.read_files(self.files_of(data_dir, DEV), DEV)

    def get_test_examples(self, data_dir: str) -> list[Any]:
        """Returns the test set; raises the errors of `get_train_examples`."""
        return self.read_files(self.files_of(data_dir, TEST), TEST)

    def get_labels(self) -> list[str | None]:
        """Returns the labels in the order of their ids; `[None]` for regression."""
        return list(self.labels) or [None]

    @abc.abstractmethod
    def files_of(self, data_dir: str, split: str) -> list[str]:
        """Returns the files of "train", "dev" or "test"; a missing split raises a `UserError`."""

    @abc.abstractmethod
    def read_files(self, files: Sequence[str], split: str) -> list[Any]:
        """Returns the examples in the files of a split; raises as `get_train_examples`."""

    @staticmethod
    @abc.abstractmethod
    def display_parts(example: Any) -> dict[str, Any]:
        """Returns the parts of an example to display: `id`, `passage` (or None) and `texts`.

        The file of predicted labels has the id, too.
        """

    def process_text(self, text: str | bytes) -> str:
        """Returns a text in the form that the tokenizer expects."""
        text = tokenization.convert_to_unicode(text)
        if not self.use_spm:
            return text
        lower, keep = self.do_lower_case, self.keep_accents
        return tokenization.preprocess_text(text, lower=lower, keep_accents=keep)
