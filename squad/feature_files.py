"""SQuAD files to feature files, reused where they were made from the same input.

For prediction a "left" file lies beside the records. It holds what the model does not need, where
tokens lie in the paragraph, as a NumPy archive without pickles.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

import tokenization
from runtime.derived import DerivedFile
from runtime.errors import UserError
from runtime.files import sha256_of
from runtime.progress import progress
from squad.examples import SquadExample, load_squad, read_examples
from squad.features import FIRST_UNIQUE_ID, Window, WindowMaker, model_inputs
from squad.records import (
    FeatureWriter,
    RecordFile,
    count_valid_records,
    feature_spec,
    serialize,
)


class FeatureOptions(NamedTuple):
    """The flags that shape features."""

    max_seq_length: int
    doc_stride: int
    max_query_length: int
    do_lower_case: bool


class FeatureFile(NamedTuple):
    """A feature file that is ready to be read.

    Attributes:
      path: of the records.
      num_examples: examples that the features were made from.
      num_features: records in it.
    """

    path: str
    num_examples: int
    num_features: int


class PredictionFeature(NamedTuple):
    """What prediction needs to know of a feature besides the model's inputs.

    Attributes:
      unique_id, example_index: as in `InputFeatures`.
      doc_offset: position of the window's first token in the feature.
      starts, ends: int32, first and last character of each token of the window.
      max_context: bool, whether the window gives the token its maximum context.
    """

    unique_id: int
    example_index: int
    doc_offset: int
    starts: np.ndarray
    ends: np.ndarray
    max_context: np.ndarray


class FeatureMaker:
    """Makes feature files with one tokenizer and one set of options."""

    def __init__(self, tokenizer: tokenization.FullTokenizer, options: FeatureOptions):
        self._windows = WindowMaker(tokenizer, *options)
        self._options = options
        model = tokenizer.sp_model.serialized_model_proto()
        self._tokenizer_sha256 = hashlib.sha256(model).hexdigest()

    def training_features(self, train_file: str, feature_file: str) -> FeatureFile:
        """The training features of a SQuAD file, in `feature_file`.

        Raises:
          UserError: the input is no good, or `feature_file` is a file that is not ours to replace.
        """
        derived = DerivedFile(feature_file, self._source(train_file, is_training=True))
        facts = derived.reusable()
        if facts is None:
            examples, left_out = read_examples(load_squad(train_file), train_file, is_training=True)
            left_out.log(train_file)
            if derived.is_foreign():
                return self._foreign_file(feature_file, len(examples), is_training=True)
            facts = self._build(derived, examples, left_out.counts)
        return _announce(feature_file, facts)

    def prediction_features(
        self,
        predict_file: str,
        examples: list[SquadExample],
        feature_file: str,
        left_file: str,
    ) -> tuple[FeatureFile, list[PredictionFeature]]:
        """The features of `examples`, read from `predict_file`, and what is left for each.

        Raises:
          UserError: a file at one of the two names is not ours to replace.
        """
        source = self._source(predict_file, is_training=False)
        derived = DerivedFile(feature_file, source, [left_file])
        facts = derived.reusable()
        if facts is None:
            if derived.is_foreign():
                file = self._foreign_file(feature_file, len(examples), is_training=False)
                return file, self._left_of_foreign_file(file, examples)
            facts = self._build(derived, examples, {})
        return _announce(feature_file, facts), list(_read_left(left_file))

    def _source(self, input_file: str, is_training: bool) -> dict:
        """Everything that features are a function of."""
        try:
            input_sha256 = sha256_of(input_file)
        except OSError as e:
            raise UserError(f"SQuAD file {input_file} cannot be read: {e.strerror}") from e
        return {
            "input_sha256": input_sha256,
            "tokenizer_sha256": self._tokenizer_sha256,
            "is_training": is_training,
            **self._options._asdict(),
        }

    def _build(self, derived: DerivedFile, examples: list[SquadExample], left_out: dict) -> dict:
        """Writes the records, and the left file if there is to be one; returns the facts."""
        with derived.building() as (names, facts):
            writer = FeatureWriter(names[0], derived.source["is_training"])
            left = []
            for window in self._all_windows(examples):
                writer.write(self._record(window, writer.num_features, writer.is_training))
                if len(names) > 1:
                    left.append(window)
            writer.close()
            if len(names) > 1:
                _write_left(names[1], left)
            facts["num_examples"] = len(examples)
            facts["num_features"] = writer.num_features
            facts["left_out"] = left_out
        return facts

    def _all_windows(self, examples: list[SquadExample]) -> Iterator[Window]:
        for index, example in enumerate(progress(examples, len(examples), "features", "examples")):
            yield from self._windows.windows(example, index)

    def _record(self, window: Window, number: int, is_training: bool) -> bytes:
        """The window as a record; `number` counts features from 0."""
        arrays = model_inputs(window, self._windows, self._options.max_seq_length)
        keys = ("input_ids", "input_mask", "segment_ids", "p_mask")
        fields = {key: array.tolist() for key, array in zip(keys, arrays, strict=True)}
        fields["unique_ids"] = [FIRST_UNIQUE_ID + number]
        if is_training:
            start, end = window.positions
            fields["start_positions"], fields["end_positions"] = [start], [end]
            fields["is_impossible"] = [int(window.answer is None)]
        return serialize(fields)

    def _foreign_file(self, path: str, num_examples: int, is_training: bool) -> FeatureFile:
        """A file without our header, if its records have the reference's keys and our length."""
        spec = feature_spec(self._options.max_seq_length, is_training, with_p_mask=False)
        try:
            num_features = count_valid_records(path, spec)
        except (OSError, ValueError, tf.errors.OpError) as e:
            raise UserError(
                f"{path} exists and is no file of features of length "
                f"{self._options.max_seq_length}; it is neither read nor replaced: give another "
                "name or remove it"
            ) from e
        tf.logging.warning(
            "%s has no header of ours: its %d records are used as they are; nothing tells what "
            "they were made from",
            path,
            num_features,
        )
        return FeatureFile(path, num_examples, num_features)

    def _left_of_foreign_file(
        self, file: FeatureFile, examples: list[SquadExample]
    ) -> list[PredictionFeature]:
        """What is left for the records of a file without our header, checked against them."""
        windows = list(self._all_windows(examples))
        records = RecordFile([file.path])
        same = len(windows) == len(records) and all(
            self._describes(window, number, record)
            for number, (window, record) in enumerate(
                zip(windows, records.read(range(len(records))), strict=True)
            )
        )
        if not same:
            raise UserError(
                f"{file.path} holds other features than --predict_file and the flags give; it is "
                "neither read nor replaced: give another name or remove it"
            )
        return list(_prediction_features(_left_columns(windows)))

    def _describes(self, window: Window, number: int, record: bytes) -> bool:
        feature = tf.train.Example.FromString(record).features.feature
        ids = model_inputs(window, self._windows, self._options.max_seq_length)[0]
        return (
            feature["unique_ids"].int64_list.value[:] == [FIRST_UNIQUE_ID + number]
            and feature["input_ids"].int64_list.value[:] == ids.tolist()
        )


def _announce(path: str, facts: dict) -> FeatureFile:
    file = FeatureFile(path, facts["num_examples"], facts["num_features"])
    tf.logging.info("%s: %d features of %d examples", path, file.num_features, file.num_examples)
    return file


def _left_columns(windows: Iterable[Window]) -> dict[str, np.ndarray]:
    """One row a window, and end to end the columns that have one a token."""
    windows = list(windows)
    numbers = {
        "example_index": [w.example_index for w in windows],
        "doc_offset": [w.doc_offset for w in windows],
        "num_tokens": [len(w.max_context) for w in windows],
    }
    empty = np.zeros(0, np.int32)
    return {
        **{key: np.array(values, np.int32) for key, values in numbers.items()},
        "starts": np.concatenate([empty, *(w.document.starts for w in windows)]),
        "ends": np.concatenate([empty, *(w.document.ends for w in windows)]),
        "max_context": np.concatenate([empty.astype(bool), *(w.max_context for w in windows)]),
    }


def _write_left(path: str, windows: list[Window]) -> None:
    with open(path, "wb") as file:
        np.savez(file, **_left_columns(windows))


def _read_left(path: str) -> Iterator[PredictionFeature]:
    with np.load(path, allow_pickle=False) as columns:
        yield from _prediction_features(dict(columns))


def _prediction_features(columns: dict[str, np.ndarray]) -> Iterator[PredictionFeature]:
    end = 0
    rows = zip(columns["example_index"], columns["doc_offset"], columns["num_tokens"], strict=True)
    for number, (example_index, doc_offset, num_tokens) in enumerate(rows):
        start, end = end, end + num_tokens
        yield PredictionFeature(
            FIRST_UNIQUE_ID + number,
            int(example_index),
            int(doc_offset),
            *(columns[key][start:end] for key in ("starts", "ends", "max_context")),
        )
