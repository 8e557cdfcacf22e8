"""Reads the files of a data set: what all processors have in common."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

from albert import tokenization
from albert.training.task import DEV, TEST, TRAIN


class Processor(abc.ABC):
    """Reads the files of a data set."""

    def __init__(self, use_spm, do_lower_case):
        """`use_spm`: normalize texts for a SentencePiece model, lower case if `do_lower_case`."""
        self.use_spm = use_spm
        self.do_lower_case = do_lower_case

    def get_train_examples(self, data_dir: str) -> list[Any]:
        """Returns the training set.

        Raises:
          UserError: there is none, or its files are not as they should be.
        """
        return self.read_files(self.files_of(data_dir, TRAIN), TRAIN)

    def get_dev_examples(self, data_dir: str) -> list[Any]:
        """Returns the development set; raises as `get_train_examples` does."""
        return self.read_files(self.files_of(data_dir, DEV), DEV)

    def get_test_examples(self, data_dir: str) -> list[Any]:
        """Returns the test set; raises as `get_train_examples` does."""
        return self.read_files(self.files_of(data_dir, TEST), TEST)

    @abc.abstractmethod
    def get_labels(self) -> Sequence[str | None]:
        """Returns the labels in the order of their ids; only None for regression."""

    @abc.abstractmethod
    def files_of(self, data_dir: str, part: str) -> list[str]:
        """Returns the files of a part of the data set: "train", "dev" or "test".

        Raises:
          UserError: there are none.
        """

    @abc.abstractmethod
    def read_files(self, files: Sequence[str], part: str) -> list[Any]:
        """Returns the examples in the files of a part; raises as `get_train_examples` does."""

    @staticmethod
    @abc.abstractmethod
    def id_of(example: Any) -> str:
        """Returns the name of an example in the file of labels."""

    @staticmethod
    @abc.abstractmethod
    def display_parts(example: Any) -> dict[str, Any]:
        """Returns the parts of an example to display: `id`, `passage` (or None) and `texts`."""

    def process_text(self, text: str | bytes) -> str:
        """Returns a text as the tokenizer wants it."""
        text = tokenization.convert_to_unicode(text)
        return (
            tokenization.preprocess_text(text, lower=self.do_lower_case) if self.use_spm else text
        )
