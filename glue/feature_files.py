"""The files of a task to feature files, reused where they were made from the same input."""

from __future__ import annotations

import hashlib
import time
from typing import NamedTuple

import tensorflow.compat.v1 as tf

import tokenization
from glue.examples import DataProcessor
from glue.features import FeatureMaker
from glue.input_pipeline import feature_spec
from runtime.data.cached_file import CachedFile, Snapshot
from runtime.data.process_pool import ordered_map
from runtime.data.records import count_foreign_records
from runtime.errors import UserError
from runtime.files import sha256_of
from runtime.progress import progress_bar

# Examples that are converted at a time; enough to make sending them to a worker worth while.
_CHUNK = 512


class FeatureFile(NamedTuple):
    """A feature file that is ready to be read.

    Attributes:
      path: of the records.
      num_examples: records in it.
      snapshot: what the file was when it was found or made; to be checked when it was opened.
    """

    path: str
    num_examples: int
    snapshot: Snapshot


class FeatureFiles:
    """Makes the feature files of a task with one tokenizer and some worker processes."""

    def __init__(
        self,
        processor: DataProcessor,
        tokenizer: tokenization.FullTokenizer,
        max_seq_length: int,
        workers: int,
    ):
        """Reads the labels of the task; `max_seq_length` is the features' length."""
        self._processor = processor
        self._max_seq_length = max_seq_length
        self._labels = processor.get_labels()
        self._maker = FeatureMaker(tokenizer, self._labels, max_seq_length)
        self._workers = workers
        model = tokenizer.sp_model
        self._tokenizer_sha256 = hashlib.sha256(model.serialized_model_proto()).hexdigest()
        self._limits = {"input_ids": model.get_piece_size()}
        if not processor.is_regression:
            self._limits["label_ids"] = len(self._labels)

    def made(self, part: str, input_file: str, feature_file: str) -> FeatureFile:
        """The features of a part of the data set, in `feature_file`.

        Of several processes that need the same file one makes it and the others wait.

        Args:
          part: "train", "dev" or "test".
          input_file: the part's file.
          feature_file: of the records.

        Raises:
          UserError: the input is no good, or `feature_file` is a file that is not ours to replace.
        """
        derived = self._derived(part, input_file, feature_file)

        def check() -> dict:
            # What is wrong with the input is to show now, not when predictions are written.
            self._processor.read_examples(input_file, part)
            return {"num_examples": self._count_foreign(feature_file)}

        facts, snapshot = derived.made_once(lambda: self._build(derived, part, input_file), check)
        tf.logging.info("%s: %d examples", feature_file, facts["num_examples"])
        return FeatureFile(feature_file, facts["num_examples"], snapshot)

    def state(self, part: str, input_file: str, feature_file: str) -> str:
        """Whether `made` would find the file ready, for people.

        Raises:
          UserError: `made` would.
        """
        derived = self._derived(part, input_file, feature_file)
        return derived.state(lambda: self._count_foreign(feature_file))

    def _derived(self, part: str, input_file: str, feature_file: str) -> CachedFile:
        return CachedFile(feature_file, self._source(part, input_file), numbers=["num_examples"])

    def _source(self, part: str, input_file: str) -> dict:
        """Everything that features are a function of."""
        try:
            input_sha256 = sha256_of(input_file)
        except OSError as e:
            raise UserError(f"{input_file} cannot be read: {e.strerror}") from e
        return {
            "input_sha256": input_sha256,
            "tokenizer_sha256": self._tokenizer_sha256,
            "task": type(self._processor).__name__,
            "part": part,
            "labels": self._labels,
            "max_seq_length": self._max_seq_length,
            "do_lower_case": self._processor.do_lower_case,
        }

    def _build(self, derived: CachedFile, part: str, input_file: str) -> dict:
        """Writes the records and returns the facts."""
        examples = self._processor.read_examples(input_file, part)
        started = time.perf_counter()

        def convert(start: int) -> list[bytes]:
            return self._maker.records(examples[start : start + _CHUNK])

        with (
            derived.building() as ((name,), facts),
            tf.io.TFRecordWriter(name) as writer,
            progress_bar(len(examples), "features", "examples") as bar,
        ):
            starts = range(0, len(examples), _CHUNK)
            for records in ordered_map(convert, starts, self._workers):
                for record in records:
                    writer.write(record)
                bar.update(len(records))
            facts["num_examples"] = len(examples)
        tf.logging.info("%s made in %.1f s", derived.paths[0], time.perf_counter() - started)
        return facts

    def _count_foreign(self, path: str) -> int:
        """The records of a file without our header, whose keys, length and ids must be right."""
        spec = feature_spec(self._max_seq_length, self._processor.is_regression)
        return count_foreign_records(
            path, spec, self._max_seq_length, "give another --cached_dir", self._limits
        )
