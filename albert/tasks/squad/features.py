"""Features of SQuAD's examples, and their TFRecords with the reference's keys.

A feature is `[CLS] question [SEP] window [SEP]`, padded with 0 to `max_seq_length`. A window begins
every `doc_stride` tokens until one reaches the end of the paragraph.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from albert.records import tf_example
from albert.records.sequences import (
    SEQUENCE_KEYS,
    TokenSequence,
    make_sequence,
    max_context_windows,
    window_starts,
)
from albert.tokenization import FullTokenizer, Tokens

FIRST_UNIQUE_ID = 1000000000
# [CLS], [SEP] after the question and [SEP] after the window.
SPECIAL_TOKENS = 3
# Questions on the same paragraph are consecutive in a file; the reference shuffles them first.
_REMEMBERED_PARAGRAPHS = 1024
# The white space between words in Google's BERT, for SQuAD's paragraphs.
_SPACE = re.compile("[ \t\r\n\u202f]")


@dataclasses.dataclass(eq=False)
class SquadExample:
    """A question on a paragraph; in training, also its answer.

    Attributes:
      question_text, paragraph_text: texts as in the file.
      orig_answer_text: the answer; "" for no answer; None outside training.
      start_position: offset of the answer's first character; -1 for no answer; None outside
        training.
      end_position: not used, as in the reference.
      is_impossible: whether the question has no answer (SQuAD 2.0).
    """

    qas_id: str
    question_text: str
    paragraph_text: str
    orig_answer_text: str | None = None
    start_position: Any = None
    end_position: Any = None
    is_impossible: bool = False


class Window(NamedTuple):
    """A feature before padding: a question with the tokens of a paragraph from `begin` to `end`.

    Attributes:
      number: number of the window in the paragraph.
      begin, end: range of the window's tokens in the paragraph; `end` is exclusive.
      starts: first tokens of all windows of the paragraph.
      room: number of tokens in every window except the last.
      answer: first and last token of the answer, relative to the window; None if it is elsewhere.
    """

    example_index: int
    number: int
    question: list[int]
    paragraph: Tokens
    begin: int
    end: int
    starts: tuple[int, ...]
    room: int
    answer: tuple[int, int] | None

    @property
    def max_context(self) -> np.ndarray:
        """Returns whether no other window gives a token more context; see `max_context_windows`."""
        best = max_context_windows(self.starts, self.room, len(self.paragraph.ids))
        return best[self.begin : self.end] == self.number

    @property
    def doc_offset(self) -> int:
        """Returns the position of the window's first token in the feature."""
        return len(self.question) + 2

    @property
    def length(self) -> int:
        """Returns the feature's length without padding."""
        return len(self.question) + self.end - self.begin + SPECIAL_TOKENS

    def sequence(self, tokenizer: FullTokenizer) -> TokenSequence:
        """Returns the feature's token ids and segments."""
        ids = self.paragraph.ids[self.begin : self.end].tolist()
        return make_sequence(self.question, ids, tokenizer.cls_id, tokenizer.sep_id)

    @property
    def positions(self) -> tuple[int, int]:
        """Returns the answer's first and last position in the feature, or 0, 0 without answer."""
        if self.answer is None:
            return 0, 0
        return self.answer[0] + self.doc_offset, self.answer[1] + self.doc_offset


# The columns with a value for each window, and those with a value for each of its tokens.
WINDOW_COLUMNS = ("example_index", "doc_offset", "num_tokens")
TOKEN_COLUMNS = ("starts", "ends", "max_context")
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


def prediction_features(columns: TokenColumns, first: int = 0) -> Iterator[PredictionFeature]:
    """Yields the features that the columns describe, numbered from `first`."""
    end = 0
    rows = zip(*(columns[key].tolist() for key in WINDOW_COLUMNS), strict=True)
    for number, (example_index, doc_offset, num_tokens) in enumerate(rows, start=first):
        start, end = end, end + num_tokens
        values = (columns[key][start:end] for key in TOKEN_COLUMNS)
        yield PredictionFeature(FIRST_UNIQUE_ID + number, example_index, doc_offset, *values)


class WindowMaker:
    """A splitter of examples into windows; it tokenizes a paragraph once for all its questions."""

    def __init__(
        self,
        tokenizer: FullTokenizer,
        max_seq_length: int,
        doc_stride: int,
        max_query_length: int,
        exact_answers: bool = False,
    ):
        """Prepares the tokenizer, also for processes that will be forked; lengths are in tokens.

        Raises a `UserError` if the tokenizer cannot report the positions of its tokens.

        Args:
          doc_stride: distance between the starts of two windows.
          max_query_length: maximum length of the question; the rest is truncated.
          exact_answers: whether answers of WordPiece, too, have only the tokens that overlap them.
        """
        tokenizer.encode_with_offsets("")
        self._tokenizer, self._max_seq_length = tokenizer, max_seq_length
        self._doc_stride, self._max_query_length = doc_stride, max_query_length
        self._extends_answers = tokenizer.is_wordpiece and not exact_answers
        self._tokenize = functools.lru_cache(_REMEMBERED_PARAGRAPHS)(tokenizer.encode_with_offsets)

    def remember_all(self) -> None:
        """Keeps the tokens of all paragraphs from now on, not only those of the last ones."""
        self._tokenize = functools.cache(self._tokenizer.encode_with_offsets)

    def windows(self, examples: Sequence[SquadExample], first_index: int = 0) -> Iterator[Window]:
        """Yields the windows of examples, which are numbered from `first_index`."""
        questions = self._tokenizer.encode(example.question_text for example in examples)
        for i, (example, question) in enumerate(zip(examples, questions, strict=True)):
            yield from self._windows_of(
                example, first_index + i, question[: self._max_query_length]
            )

    def _windows_of(
        self, example: SquadExample, index: int, question: list[int]
    ) -> Iterator[Window]:
        paragraph = self._tokenize(example.paragraph_text)
        answer = self._answer_tokens(example, paragraph)
        room = self._max_seq_length - len(question) - SPECIAL_TOKENS
        starts = window_starts(len(paragraph.ids), room, self._doc_stride)
        for number, start in enumerate(starts):
            end = min(start + room, len(paragraph.ids))
            answer_span = None
            if answer and start <= answer[0] and answer[1] < end:
                answer_span = answer[0] - start, answer[1] - start
            yield Window(index, number, question, paragraph, start, end, starts, room, answer_span)

    def _answer_tokens(self, example: SquadExample, paragraph: Tokens) -> tuple[int, int] | None:
        if not example.orig_answer_text or not len(paragraph.ids):
            return None
        first = example.start_position
        characters = first, first + len(example.orig_answer_text) - 1
        start, end = paragraph.span_of(*characters)
        if self._extends_answers:
            # As in Google's BERT, an answer with other tokens on its own is extended to words.
            (ids,) = self._tokenizer.encode([example.orig_answer_text])
            if ids != paragraph.ids[start : end + 1].tolist():
                return paragraph.span_of(*_whole_words(example.paragraph_text, *characters))
        return start, end


def _whole_words(text: str, first: int, last: int) -> tuple[int, int]:
    """Returns the first and last character of the words that contain `first` and `last`."""
    begin = max((space.end() for space in _SPACE.finditer(text, 0, first)), default=0)
    end = _SPACE.search(text, last)
    return begin, (end.start() if end else len(text)) - 1


ANSWER_KEYS = ("start_positions", "end_positions", "is_impossible")
_REMEMBERED_ENCODINGS = 64
_ZERO, _ONE = b"\x00", b"\x01"


class WindowRecordMaker:
    """A converter of windows to the entries of records, except their unique ids."""

    def __init__(self, max_seq_length: int, tokenizer: FullTokenizer):
        """Prepares for features of one length; the tokenizer must have [CLS] and [SEP]."""
        self._length = max_seq_length
        # All questions' windows on a paragraph are slices of its encoded ids.
        self._encoded = functools.lru_cache(_REMEMBERED_ENCODINGS)(self._encode_ids)
        self._table = tf_example.varint_table(tokenizer.size)
        self._cls, self._sep = (tf_example.varint(i) for i in (tokenizer.cls_id, tokenizer.sep_id))

    def entries(self, window: Window, is_training: bool) -> bytes:
        """Returns the joined entries; `p_mask` is 1 where no answer can be, which [CLS] may be."""
        first, used = window.doc_offset, window.length
        padding, inside = bytes(self._length - used), bytes(window.end - window.begin)
        ids, bounds = self._encoded(window.paragraph)
        text = ids[bounds[window.begin] : bounds[window.end]]
        question = tf_example.varints(window.question)
        # Numbers below 128 are their own varints.
        columns = {
            "input_ids": b"".join((self._cls, question, self._sep, text, self._sep, padding)),
            "input_mask": _ONE * used + padding,
            "segment_ids": bytes(first) + _ONE * (used - first) + padding,
            "p_mask": _ZERO + _ONE * (first - 1) + inside + _ONE * (1 + len(padding)),
        }
        entries = b"".join(map(tf_example.entry, columns, columns.values()))
        if is_training:
            numbers = *window.positions, int(window.answer is None)
            values = map(tf_example.VARINTS.__getitem__, numbers)
            entries += b"".join(map(tf_example.entry, ANSWER_KEYS, values))
        return entries

    def _encode_ids(self, tokens: Tokens) -> tuple[bytes, list[int]]:
        """Returns tokens' ids as varints, with the start of each and the end of the last."""
        content, lengths = self._table.encode(tokens.ids)
        return content, [0, *lengths.cumsum().tolist()]


def feature_spec(seq_length: int, is_training: bool, with_p_mask: bool) -> dict:
    """Returns the specification with which `tf.io.parse_example` reads a feature's record."""
    spec = {key: tf.io.FixedLenFeature([seq_length], tf.int64) for key in SEQUENCE_KEYS}
    spec["unique_ids"] = tf.io.FixedLenFeature([], tf.int64)
    if with_p_mask:
        spec["p_mask"] = tf.io.FixedLenFeature([seq_length], tf.int64)
    if is_training:
        spec.update({key: tf.io.FixedLenFeature([], tf.int64) for key in ANSWER_KEYS})
    return spec
