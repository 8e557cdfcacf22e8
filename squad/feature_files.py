"""SQuAD files to feature files, reused where they were made from the same input."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from typing import NamedTuple

import tensorflow.compat.v1 as tf

import tokenization
from runtime.data.cached_file import CachedFile, Snapshot
from runtime.data.process_pool import ordered_map
from runtime.data.records import RecordFile, count_foreign_records
from runtime.errors import UserError
from runtime.files import sha256_of
from runtime.progress import progress_bar
from squad import left
from squad.examples import SquadExample, load_squad, read_examples
from squad.features import FIRST_UNIQUE_ID, Window, WindowMaker, model_inputs
from squad.records import FeatureWriter, RecordMaker, feature_spec

Examples = Callable[[], list[SquadExample]]
# Examples that are converted at a time; enough to make sending them to a worker worth while.
_CHUNK = 256
# What is reused of a header.
_NUMBERS = ("num_examples", "num_features")
# To be raised when the same input gives other training features; in prediction nothing has changed.
_TRAINING_VERSION = 2


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
      snapshot: what the file was when it was found or made; to be checked when it was opened.
      is_foreign: whether it has no header of ours.
    """

    path: str
    num_examples: int
    num_features: int
    snapshot: Snapshot
    is_foreign: bool = False


class _Chunk(NamedTuple):
    """Converted examples: their number, records that lack their ids, and what is left."""

    num_examples: int
    records: list[bytes]
    left: left.Columns | None


class FeatureMaker:
    """Makes feature files with one tokenizer, one set of options and some worker processes."""

    def __init__(
        self, tokenizer: tokenization.FullTokenizer, options: FeatureOptions, workers: int = 1
    ):
        self._windows = WindowMaker(tokenizer, *options)
        self._options = options
        self._records = RecordMaker(options.max_seq_length, self._windows)
        self._workers = workers
        model = tokenizer.sp_model
        self._tokenizer_sha256 = hashlib.sha256(model.serialized_model_proto()).hexdigest()
        self._limits = {
            "input_ids": model.get_piece_size(),
            **dict.fromkeys(("start_positions", "end_positions"), options.max_seq_length),
        }

    def training_features(self, train_file: str, feature_file: str) -> FeatureFile:
        """The training features of a SQuAD file, in `feature_file`.

        Of several processes that need the same file one makes it and the others wait.

        Raises:
          UserError: the input is no good, or `feature_file` is a file that is not ours to replace.
        """
        derived = self._derived(train_file, feature_file)

        def read() -> tuple[list[SquadExample], dict]:
            examples, left_out = read_examples(load_squad(train_file), train_file, is_training=True)
            left_out.log(train_file)
            return examples, left_out.counts

        return self._made_once(derived, read)

    def prediction_features(
        self, predict_file: str, examples: Examples, feature_file: str, left_file: str
    ) -> FeatureFile:
        """The features of a SQuAD file to predict, in `feature_file`.

        Args:
          predict_file: the SQuAD file.
          examples: gives what is read from it; called if the features are to be made.
          feature_file: of the records.
          left_file: what is left of the features.

        Raises:
          UserError: a file at one of the two names is not ours to replace.
        """
        derived = self._derived(predict_file, feature_file, left_file)
        return self._made_once(derived, lambda: (examples(), {}))

    def left_features(
        self, file: FeatureFile, examples: Examples, left_file: str
    ) -> list[left.PredictionFeature]:
        """What is left of the features of `file`, which `prediction_features` returned.

        Raises:
          UserError: the file is not ours, and not of these examples; or it was replaced.
        """
        if file.is_foreign:
            features = self._left_of_foreign_file(file.path, examples())
        else:
            features = list(left.prediction_features(left.read_columns(left_file)))
        file.snapshot.check()
        return features

    def training_state(self, train_file: str, feature_file: str) -> str:
        """Whether `training_features` would find its file ready, for people.

        Raises:
          UserError: `training_features` would.
        """
        derived = self._derived(train_file, feature_file)
        return derived.state(lambda: self._count_foreign(derived))

    def prediction_state(
        self, predict_file: str, examples: Examples, feature_file: str, left_file: str
    ) -> str:
        """Whether `prediction_features` would find its files ready, for people.

        Raises:
          UserError: `prediction_features` or `left_features` would.
        """
        derived = self._derived(predict_file, feature_file, left_file)

        def check() -> None:
            self._count_foreign(derived)
            self._left_of_foreign_file(feature_file, examples())

        return derived.state(check)

    def _derived(self, input_file: str, feature_file: str, *left_file: str) -> CachedFile:
        """The features of a SQuAD file: with a left file to predict it, else to train on it."""
        source = self._source(input_file, is_training=not left_file)
        return CachedFile(feature_file, source, left_file, _NUMBERS)

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
            **({"rules of version": _TRAINING_VERSION} if is_training else {}),
            **self._options._asdict(),
        }

    def _made_once(
        self, derived: CachedFile, read: Callable[[], tuple[list[SquadExample], dict]]
    ) -> FeatureFile:
        """The file, reused, or made of what `read` returns: examples, and left out by reason."""

        def check() -> dict:
            num_features = self._count_foreign(derived)
            num_examples = len(read()[0])
            return {"num_examples": num_examples, "num_features": num_features, "is_foreign": True}

        path = derived.paths[0]
        facts, snapshot = derived.made_once(lambda: self._build(derived, *read()), check)
        file = FeatureFile(
            path,
            facts["num_examples"],
            facts["num_features"],
            snapshot,
            facts.get("is_foreign", False),
        )
        tf.logging.info(
            "%s: %d features of %d examples", path, file.num_features, file.num_examples
        )
        return file

    def _build(self, derived: CachedFile, examples: list[SquadExample], left_out: dict) -> dict:
        """Writes the records, and the left file if there is to be one; returns the facts."""
        started = time.perf_counter()
        is_training, with_left = derived.source["is_training"], len(derived.paths) > 1

        def convert(start: int) -> _Chunk:
            return self._convert(examples, start, is_training, with_left)

        with derived.building() as (names, facts):
            writer = FeatureWriter(names[0], is_training)
            columns = []
            with progress_bar(len(examples), "features", "examples") as bar:
                starts = range(0, len(examples), _CHUNK)
                for chunk in ordered_map(convert, starts, self._workers):
                    for record in chunk.records:
                        writer.write_entries(record)
                    columns.append(chunk.left)
                    bar.update(chunk.num_examples)
            writer.close()
            if with_left:
                left.write_columns(names[1], left.joined(columns))
            facts["num_examples"] = len(examples)
            facts["num_features"] = writer.num_features
            facts["left_out"] = left_out
        seconds = time.perf_counter() - started
        tf.logging.info(
            "%s made in %.1f s, %.0f examples/s; questions left out: %s",
            derived.paths[0],
            seconds,
            len(examples) / seconds,
            ", ".join(f"{count} ({reason})" for reason, count in left_out.items()) or "none",
        )
        return facts

    def _convert(
        self, examples: list[SquadExample], start: int, is_training: bool, with_left: bool
    ) -> _Chunk:
        """Converts the examples from number `start` on."""
        chunk = examples[start : start + _CHUNK]
        windows = list(self._windows.windows(chunk, start))
        records = [self._records.entries(window, is_training) for window in windows]
        return _Chunk(len(chunk), records, left.columns_of(windows) if with_left else None)

    def _count_foreign(self, derived: CachedFile) -> int:
        """The records of a file without our header, whose keys, length and ids must be right."""
        seq_length = self._options.max_seq_length
        spec = feature_spec(seq_length, derived.source["is_training"], with_p_mask=False)
        return count_foreign_records(
            derived.paths[0], spec, seq_length, "give another name", self._limits
        )

    def _left_of_foreign_file(
        self, path: str, examples: list[SquadExample]
    ) -> list[left.PredictionFeature]:
        """What is left for the records of a file without our header, checked against them."""
        windows = list(self._windows.windows(examples))
        records = RecordFile([path])
        same = len(windows) == len(records) and all(
            self._describes(window, number, record)
            for number, (window, record) in enumerate(
                zip(windows, records.read(range(len(records))), strict=True)
            )
        )
        if not same:
            raise UserError(
                f"{path} holds other features than --predict_file and the flags give; it is "
                "neither read nor replaced: give another name or remove it"
            )
        return list(left.prediction_features(left.columns_of(windows)))

    def _describes(self, window: Window, number: int, record: bytes) -> bool:
        feature = tf.train.Example.FromString(record).features.feature
        ids = model_inputs(window, self._windows, self._options.max_seq_length)[0]
        return (
            feature["unique_ids"].int64_list.value[:] == [FIRST_UNIQUE_ID + number]
            and feature["input_ids"].int64_list.value[:] == ids.tolist()
        )
