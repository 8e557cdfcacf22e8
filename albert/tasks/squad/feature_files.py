"""Feature files of SQuAD, and the features of a run's splits."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from albert.core.errors import UserError
from albert.data.cached_file import CachedFile
from albert.data.feature_file import Chunk, FeatureFile, FeatureSource, sha256_of_input
from albert.data.records import RecordFile, count_foreign_records
from albert.tasks.squad.examples import DroppedQuestions, SquadExample, read_examples
from albert.tasks.squad.features import (
    FIRST_UNIQUE_ID,
    Window,
    WindowMaker,
    WindowRecordMaker,
    feature_spec,
    model_inputs,
    with_unique_id,
)
from albert.tasks.squad.question_source import QuestionSource
from albert.tokenization import FullTokenizer

# Raise this when the same input gives other training features. So far, prediction features have not
# changed.
_TRAINING_VERSION = 2


class FeatureOptions(NamedTuple):
    """The flags that features depend on, other than those of the tokenizer."""

    max_seq_length: int
    doc_stride: int
    max_query_length: int


class ScoringData(NamedTuple):
    """The parts of a predicted file that scoring needs."""

    articles: list[dict]
    examples: list[SquadExample]
    features: list[PredictionFeature]


class SquadFeatures(FeatureSource):
    """The features of the questions of a file, for training or for prediction.

    Prediction also has a file of token positions (--predict_feature_left_file).

    Attributes:
      unanswerable: whether questions without answers count as unanswerable; training skips them
        otherwise.
    """

    chunk = 256
    unanswerable: ClassVar[bool] = False

    def __init__(
        self,
        source: QuestionSource,
        paths: Sequence[str],
        tokenizer: FullTokenizer,
        options: FeatureOptions,
        workers: int = 1,
        trims: bool = False,
    ):
        """Describes the feature file `paths[0]` and, for prediction, positions in `paths[1]`."""
        self.input_file = source.path
        self._source = source
        self.workers = workers
        self.trims = trims
        self._options = options
        self._is_training = len(paths) == 1
        self.name = "training" if self._is_training else "prediction"
        self.spec = feature_spec(options.max_seq_length, self._is_training, with_p_mask=False)
        self._windows = WindowMaker(tokenizer, *options)
        self._records = WindowRecordMaker(options.max_seq_length, tokenizer)
        self._tokenizer = tokenizer
        self._limits = {
            "input_ids": tokenizer.size,
            **dict.fromkeys(("start_positions", "end_positions"), options.max_seq_length),
        }
        made_from = {
            "input_sha256": sha256_of_input(source.path, "SQuAD file "),
            "tokenizer_sha256": tokenizer.sha256,
            "is_training": self._is_training,
            **(self._rules() if self._is_training else {}),
            **source.made_from(),
            **options._asdict(),
            "do_lower_case": tokenizer.do_lower_case,
        }
        self.cached = CachedFile(paths[0], made_from, paths[1:], ("num_examples", "num_features"))

    def _rules(self) -> dict[str, Any]:
        """Returns the version of the rules that make training features from the input."""
        unanswerable = {"unanswerable": True} if self.unanswerable else {}
        return {"rules of version": _TRAINING_VERSION, **unanswerable}

    @functools.cached_property
    def articles(self) -> list[dict]:
        """Returns the articles with the questions."""
        return self._source.articles(self._is_training)

    @functools.cached_property
    def _examples(self) -> tuple[list[SquadExample], DroppedQuestions]:
        return read_examples(self.articles, self.input_file, self._is_training, self.unanswerable)

    def read(self) -> tuple[list[SquadExample], dict[str, int]]:
        examples, left_out = self._examples
        return examples, left_out.counts

    def log_left_out(self) -> None:
        self._examples[1].log(self.input_file)

    def convert(self, examples: Sequence[SquadExample], start: int) -> Chunk:
        windows = list(self._windows.windows(examples, start))
        records = [self._records.entries(window, self._is_training) for window in windows]
        places = None if self._is_training else columns_of(windows)
        return Chunk(len(examples), records, places)

    def numbered(self, record: bytes, number: int) -> bytes:
        return with_unique_id(record, FIRST_UNIQUE_ID + number)

    def write_companion(self, path: str, parts: list[TokenColumns]) -> None:
        write_columns(path, join_columns(parts))

    def source_of(self, file: FeatureFile) -> ScoringData | None:
        """Returns the questions of a file to predict.

        Raises:
          UserError: the feature file was replaced, or another program wrote it from other examples.
        """
        if self._is_training:
            return None
        if file.is_foreign:
            features = self._token_places_for_others_records()
        else:
            features = list(prediction_features(read_columns(self.cached.paths[1])))
        file.snapshot.check()
        return ScoringData(self.articles, self.read()[0], features)

    def state(self) -> str:
        def check() -> None:
            self.count_other_programs_records()
            if not self._is_training:
                self._token_places_for_others_records()

        return self.cached.state(check)

    def count_other_programs_records(self) -> int:
        return count_foreign_records(
            self.cached.paths[0],
            self.spec,
            self._options.max_seq_length,
            "pass another name",
            self._limits,
        )

    def _token_places_for_others_records(self) -> list[PredictionFeature]:
        """Returns the token positions for a file without our header, after comparing both."""
        path = self.cached.paths[0]
        windows = list(self._windows.windows(self.read()[0]))
        records = RecordFile([path])
        same = len(windows) == len(records) and all(
            self._describes(window, number, record)
            for number, (window, record) in enumerate(
                zip(windows, records.read(range(len(records))), strict=True)
            )
        )
        if not same:
            raise UserError(
                f"{path} has other features than --predict_file and the flags give; this program "
                "neither reads nor replaces it: pass another name or remove it"
            )
        return list(prediction_features(columns_of(windows)))

    def _describes(self, window: Window, number: int, record: bytes) -> bool:
        feature = tf.train.Example.FromString(record).features.feature
        ids = model_inputs(window, self._tokenizer, self._options.max_seq_length)[0]
        return (
            feature["unique_ids"].int64_list.value[:] == [FIRST_UNIQUE_ID + number]
            and feature["input_ids"].int64_list.value[:] == ids.tolist()
        )


class SquadV2Features(SquadFeatures):
    """The features of a SQuAD 2.0 file; SQuAD 1.1 files are accepted, too."""

    unanswerable = True

    def log_left_out(self) -> None:
        super().log_left_out()
        if self._is_training and not any(example.is_impossible for example in self.read()[0]):
            tf.logging.warning(
                "%s has no unanswerable questions, so the model does not learn to abstain",
                self.input_file,
            )


TokenColumns = dict[str, np.ndarray]


class PredictionFeature(NamedTuple):
    """The values that prediction needs in addition to the model's inputs.

    Attributes:
      unique_id, example_index: number of the feature, from 1000000000, and number of the question.
      doc_offset: position of the window's first token in the feature.
      starts, ends: int32, first and last character of each token of the window.
      max_context: bool, whether no other window gives the token more context.
    """

    unique_id: int
    example_index: int
    doc_offset: int
    starts: np.ndarray
    ends: np.ndarray
    max_context: np.ndarray


def columns_of(windows: Sequence[Window]) -> TokenColumns:
    """Returns columns with one row per window, and concatenated columns with one row per token."""
    numbers = {
        "example_index": [w.example_index for w in windows],
        "doc_offset": [w.doc_offset for w in windows],
        "num_tokens": [len(w.max_context) for w in windows],
    }
    empty = np.zeros(0, np.int32)
    return {
        **{key: np.array(values, np.int32) for key, values in numbers.items()},
        "starts": np.concatenate([empty, *(w.paragraph.starts[w.begin : w.end] for w in windows)]),
        "ends": np.concatenate([empty, *(w.paragraph.ends[w.begin : w.end] for w in windows)]),
        "max_context": np.concatenate([empty.astype(bool), *(w.max_context for w in windows)]),
    }


def join_columns(parts: Sequence[TokenColumns]) -> TokenColumns:
    """Concatenates the columns of one or more parts."""
    return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}


def write_columns(path: str, columns: TokenColumns) -> None:
    """Writes the file of token positions."""
    with open(path, "wb") as file:
        np.savez(file, **columns)


def read_columns(path: str) -> TokenColumns:
    """Reads the file of token positions."""
    with np.load(path, allow_pickle=False) as columns:
        return dict(columns)


def prediction_features(columns: TokenColumns) -> Iterator[PredictionFeature]:
    """Yields the features that the columns describe, in order."""
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
