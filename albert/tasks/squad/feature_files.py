"""Examples of SQuAD, their feature files, and the features of a run's splits."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import IO, Any, NamedTuple, cast

import numpy as np
import tensorflow.compat.v1 as tf

from albert.core.errors import UserError
from albert.core.files import check_readable
from albert.core.npz import writing_npz
from albert.records import tf_example
from albert.records.cached_file import CachedFile, Snapshot
from albert.records.feature_file import Chunk, FeatureSource, sha256_of_inputs
from albert.records.process_pool import Countable
from albert.records.records import RecordFile, count_records_of_other_writers
from albert.records.sequences import padded
from albert.tables.bad_rows import BadRows
from albert.tasks.squad import ALL, ONE
from albert.tasks.squad.features import (
    FIRST_UNIQUE_ID,
    TOKEN_COLUMNS,
    WINDOW_COLUMNS,
    PredictionFeature,
    SquadExample,
    TokenColumns,
    Window,
    WindowMaker,
    WindowRecordMaker,
    columns_of,
    feature_spec,
    prediction_features,
)
from albert.tasks.squad.questions import (
    IMPOSSIBLE,
    NO_ANSWER,
    Questions,
    QuestionSource,
    no_question_error,
)
from albert.tokenization import FullTokenizer

# Raise this when the same input gives other training features. So far, prediction features have not
# changed.
_TRAINING_VERSION = 2
# Windows whose token positions are read at a time.
_WINDOWS = 256


def read_squad_examples(input_file: str, is_training: bool) -> list[SquadExample]:
    """Reads a SQuAD 1.1 or 2.0 file, or a table of questions.

    For training, questions that cannot be learned from are skipped with a warning: those with an
    empty paragraph, question or answer, without an answer, or with an answer that is not at its
    `answer_start`. Raises a `UserError` if the file cannot be read, is not SQuAD, has several
    answers to a question (if `is_training`), or has no usable question.
    """
    return read_examples(Questions(QuestionSource(input_file)), is_training)[0]


def read_examples(
    questions: Questions, is_training: bool, unanswerable: bool = False
) -> tuple[list[SquadExample], Mapping[str, int]]:
    """Makes examples of questions; also returns the numbers of those that are skipped, by reason.

    In training, a question needs one answer, or must be marked as impossible. If `unanswerable`, a
    question without answers counts as impossible if it is not marked, and a question that is marked
    but has answers is skipped. Logs what is skipped, or raises a `UserError`; see `BadRows`.
    """
    examples, bad = list[SquadExample](), questions.bad_rows()
    for paragraph in questions.paragraphs(is_training, bad):
        for question in paragraph.questions:
            about = question["id"], question["question"], paragraph.context
            if is_training:
                for text, start in _trained(question, questions, unanswerable, bad):
                    examples.append(SquadExample(*about, text, start, None, start < 0))
            else:
                examples.append(SquadExample(*about))
    bad.finish()
    if not examples:
        raise no_question_error(questions.path, bad.counts)
    return examples, bad.counts


def _trained(
    question: Mapping[str, Any], questions: Questions, unanswerable: bool, bad: BadRows
) -> list[tuple[str, int]]:
    """Returns the texts and starts of the answers to train on; ("", -1) for no answer."""
    answers, which = question.get("answers") or [], questions.source.answers
    # Null means the same as no value.
    impossible = question.get("is_impossible")
    if impossible or (impossible is None and unanswerable and not answers):
        if unanswerable and answers:
            bad.add(question["id"], IMPOSSIBLE)
            return []
        return [("", -1)]
    if not answers:
        bad.add(question["id"], NO_ANSWER)
    if len(answers) > 1 and which == ONE:
        raise UserError(
            f"{questions.path}: question {question['id']} has {len(answers)} answers; training "
            "needs exactly 1 answer per question; if this is a development file, pass the training "
            "file; to train on several, pass --answers=first or all"
        )
    # An annotator may have given the answer of another one.
    different = {(answer["text"], answer["answer_start"]): None for answer in answers}
    return [*different][: None if which == ALL else 1]


class FeatureOptions(NamedTuple):
    """The flags that features depend on, other than those of the tokenizer."""

    max_seq_length: int
    doc_stride: int
    max_query_length: int


class ScoringData(NamedTuple):
    """The parts of a predicted file that scoring needs; features are in the order of questions."""

    questions: Questions
    features: Iterable[PredictionFeature]


class SquadFeatures(FeatureSource):
    """The features of the questions of a file, for training or for prediction.

    Prediction also has a file of token positions (--predict_feature_left_file).

    If `unanswerable`, questions without answers count as unanswerable, as in SQuAD 2.0; otherwise
    training skips them.
    """

    chunk = 256

    def __init__(
        self,
        source: QuestionSource,
        paths: Sequence[str],
        tokenizer: FullTokenizer,
        options: FeatureOptions,
        workers: int = 1,
        trims: bool = False,
        exact_answers: bool = False,
        unanswerable: bool = False,
    ):
        """Describes the feature file `paths[0]` and, for prediction, positions in `paths[1]`."""
        self.input_file, self._source, self._options = source.path, source, options
        self.workers, self.trims, self._unanswerable = workers, trims, unanswerable
        self._is_training = len(paths) == 1
        self.name = "training" if self._is_training else "prediction"
        self.spec = feature_spec(options.max_seq_length, self._is_training, with_p_mask=False)
        self._windows = WindowMaker(tokenizer, *options, exact_answers)
        self._records = WindowRecordMaker(options.max_seq_length, tokenizer)
        self._tokenizer = tokenizer
        self._limits = {
            "input_ids": tokenizer.size,
            **dict.fromkeys(("start_positions", "end_positions"), options.max_seq_length),
        }
        check_readable(source.path, "SQuAD file")
        made_from = {
            "input_sha256": sha256_of_inputs(source.path),
            "tokenizer_sha256": tokenizer.sha256,
            "is_training": self._is_training,
            # None as in headers of earlier versions, which lack some values.
            **(
                {"rules of version": _TRAINING_VERSION, "unanswerable": unanswerable or None}
                if self._is_training
                else {}
            ),
            "exact_answers": (self._is_training and exact_answers) or None,
            **source.made_from(),
            **options._asdict(),
            **tokenizer.normalization._asdict(),
        }
        self.cached = CachedFile(paths[0], made_from, paths[1:])

    @functools.cached_property
    def _examples(self) -> tuple[Countable[Any], Mapping[str, int]]:
        """Returns examples for training or questions to predict, and what training skips."""
        questions = Questions(self._source)
        result: tuple[Countable[Any], Mapping[str, int]] = questions, {}
        impossible = list[str]()
        if self._is_training:
            result = read_examples(questions, True, self._unanswerable)
            impossible = [one.qas_id for one in result[0] if one.is_impossible]
        elif not self._unanswerable:
            impossible = [one["id"] for _, one in questions if one.get("is_impossible")]
        if impossible and not self._unanswerable:
            raise UserError(
                f"{self.input_file} is SQuAD 2.0: it has {len(impossible)} unanswerable questions, "
                f"the first is {impossible[0]}; use `albert squad 2.0`"
            )
        if self._is_training and self._unanswerable and not impossible:
            message = "has no unanswerable questions, so the model does not learn to abstain"
            tf.logging.warning("%s %s", self.input_file, message)
        if not len(result[0]):
            raise no_question_error(self.input_file, {})
        return result

    def read(self) -> tuple[Countable[Any], Mapping[str, int]]:
        return self._examples

    def _windows_of(self, examples: Sequence[Any], start: int) -> list[Window]:
        if not self._is_training:
            examples = [SquadExample(q["id"], q["question"], context) for context, q in examples]
        return list(self._windows.windows(examples, start))

    def convert(self, examples: Sequence[Any], start: int) -> Chunk:
        windows = self._windows_of(examples, start)
        records = [self._records.entries(window, self._is_training) for window in windows]
        columns = None if self._is_training else columns_of(windows)
        return Chunk(len(examples), records, columns)

    def numbered(self, record: bytes, number: int) -> bytes:
        unique_id = tf_example.varint(FIRST_UNIQUE_ID + number)
        return tf_example.example(tf_example.entry("unique_ids", unique_id) + record)

    def writing_companion(
        self, path: str
    ) -> contextlib.AbstractContextManager[Callable[[TokenColumns], None]]:
        return writing_npz(path, os.path.dirname(path))

    def source_of(self, snapshot: Snapshot, is_foreign: bool) -> ScoringData | None:
        """Returns the questions of a file to predict.

        Raises a `UserError` if it was replaced, or another program wrote it from other examples.
        """
        if self._is_training:
            return None
        features: Iterable[PredictionFeature]
        if is_foreign:
            features = self._features_of_others_records
        else:
            features = TokenPositions(self.cached.paths[1])
        snapshot.check()
        return ScoringData(cast(Questions, self.read()[0]), features)

    def check_records_of_other_writers(self) -> int:
        length, remedy = self._options.max_seq_length, "pass another name"
        count = count_records_of_other_writers(
            self.cached.paths[0], self.spec, length, remedy, self._limits
        )
        return count if self._is_training else len(self._features_of_others_records)

    @functools.cached_property
    def _features_of_others_records(self) -> list[PredictionFeature]:
        """Returns the features of a file without our header, after comparing it with the input."""
        path = self.cached.paths[0]
        windows, records = self._windows_of(list(self.read()[0]), 0), RecordFile([path])
        if len(windows) != len(records) or not all(
            map(self._describes, windows, itertools.count(FIRST_UNIQUE_ID), records)
        ):
            raise UserError(
                f"{path} has other features than --predict_file and the flags give; this program "
                "neither reads nor replaces it: pass another name or remove it"
            )
        return list(prediction_features(columns_of(windows)))

    def _describes(self, window: Window, unique_id: int, record: bytes) -> bool:
        feature = tf.train.Example.FromString(record).features.feature
        ids, *_ = padded(window.sequence(self._tokenizer), self._options.max_seq_length)
        return (
            feature["unique_ids"].int64_list.value[:] == [unique_id]
            and feature["input_ids"].int64_list.value[:] == ids
        )


class TokenPositions:
    """The features in a file of token positions, which is read for every pass.

    Most columns have a value for each token, so that memory may not hold them.
    """

    def __init__(self, path: str):
        self._archive = zipfile.ZipFile(path)

    def __iter__(self) -> Iterator[PredictionFeature]:
        with contextlib.ExitStack() as stack:
            members = {
                key: stack.enter_context(self._archive.open(f"{key}.npy"))
                for key in (*WINDOW_COLUMNS, *TOKEN_COLUMNS)
            }
            types = {key: _read_header(member) for key, member in members.items()}

            def read(keys: Sequence[str], count: int) -> TokenColumns:
                return {
                    key: np.frombuffer(members[key].read(count * types[key].itemsize), types[key])
                    for key in keys
                }

            number = 0
            while len((columns := read(WINDOW_COLUMNS, _WINDOWS))["num_tokens"]):
                columns |= read(TOKEN_COLUMNS, int(columns["num_tokens"].sum()))
                yield from prediction_features(columns, number)
                number += len(columns["num_tokens"])


def _read_header(member: IO[bytes]) -> np.dtype:
    """Reads the header of an array and returns the type of its values."""
    np.lib.format.read_magic(member)
    return np.lib.format.read_array_header_1_0(member)[2]
