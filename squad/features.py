"""Examples to features: windows over the paragraph's tokens, behind the question's.

A feature is `[CLS] question [SEP] window [SEP]`, padded with 0 to `max_seq_length`. Windows begin
every `doc_stride` tokens until one reaches the paragraph's end.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

import tokenization
from runtime.errors import UserError
from squad.alignment import Aligner, Tokens
from squad.examples import SquadExample

FIRST_UNIQUE_ID = 1000000000
# [CLS], [SEP] after the question, [SEP] after the window.
SPECIAL_TOKENS = 3
# Questions on one paragraph are neighbours in a file; the reference shuffles before it converts.
_REMEMBERED_PARAGRAPHS = 1024


class InputFeatures:
    """A feature as the reference has it; lists of `max_seq_length` where not said otherwise.

    Attributes:
      unique_id: number of the feature, from 1000000000.
      example_index: number of the example in prediction, None in training.
      doc_span_index: number of the window in the paragraph.
      tok_start_to_orig_index, tok_end_to_orig_index: for each token of the window the first and
        last character of the paragraph it stands for.
      token_is_max_context: for each position of a window's token, whether this window gives the
        token more context on its poorer side than any other.
      tokens: the pieces, without padding.
      input_ids, input_mask, segment_ids: inputs of the model.
      paragraph_len: the number of tokens, without padding.
      p_mask: 1 where no answer can be (question, [SEP] and padding), 0 elsewhere.
      start_position, end_position: the answer's first and last position; 0 where the window does
        not hold it; None in prediction.
      is_impossible: whether the window does not hold the answer, or there is none.
    """

    def __init__(
        self,
        unique_id,
        example_index,
        doc_span_index,
        tok_start_to_orig_index,
        tok_end_to_orig_index,
        token_is_max_context,
        tokens,
        input_ids,
        input_mask,
        segment_ids,
        paragraph_len,
        p_mask=None,
        start_position=None,
        end_position=None,
        is_impossible=None,
    ):
        self.unique_id = unique_id
        self.example_index = example_index
        self.doc_span_index = doc_span_index
        self.tok_start_to_orig_index = tok_start_to_orig_index
        self.tok_end_to_orig_index = tok_end_to_orig_index
        self.token_is_max_context = token_is_max_context
        self.tokens = tokens
        self.input_ids = input_ids
        self.input_mask = input_mask
        self.segment_ids = segment_ids
        self.paragraph_len = paragraph_len
        self.start_position = start_position
        self.end_position = end_position
        self.is_impossible = is_impossible
        self.p_mask = p_mask


class Window(NamedTuple):
    """A feature before padding: a question, and tokens `begin` to before `end` of a paragraph.

    Attributes:
      example_index: number of the example.
      index: number of the window in the paragraph.
      question: ids of the question.
      paragraph: the paragraph's tokens.
      begin, end: the window's tokens among them.
      starts: where all windows of the paragraph begin.
      room: tokens of a window that is not the last.
      answer: first and last token of the answer, counted in the window; None if not in it.
    """

    example_index: int
    index: int
    question: list[int]
    paragraph: Tokens
    begin: int
    end: int
    starts: tuple[int, ...]
    room: int
    answer: tuple[int, int] | None

    @property
    def max_context(self) -> np.ndarray:
        """bool, for each token of the window (see `InputFeatures`)."""
        best = _max_context_windows(self.starts, self.room, len(self.paragraph.ids))
        return best[self.begin : self.end] == self.index

    @property
    def doc_offset(self) -> int:
        """Position of the window's first token in the feature."""
        return len(self.question) + 2

    @property
    def length(self) -> int:
        """The feature's length without padding."""
        return len(self.question) + self.end - self.begin + SPECIAL_TOKENS

    @property
    def positions(self) -> tuple[int, int]:
        """First and last position of the answer in the feature; 0, 0 if it is not there."""
        if self.answer is None:
            return 0, 0
        return self.answer[0] + self.doc_offset, self.answer[1] + self.doc_offset


class WindowMaker:
    """Cuts examples into windows; a paragraph is tokenized once for all its questions."""

    def __init__(
        self,
        tokenizer: tokenization.FullTokenizer,
        max_seq_length: int,
        doc_stride: int,
        max_query_length: int,
        do_lower_case: bool,
    ):
        """See `convert_examples_to_features`."""
        if tokenizer.sp_model is None:
            raise UserError("SQuAD features need a SentencePiece model (--spm_model_file)")
        self._model = tokenizer.sp_model
        self._max_seq_length = max_seq_length
        self._doc_stride = doc_stride
        self._max_query_length = max_query_length
        self._lower = do_lower_case
        aligner = Aligner(self._model, do_lower_case)
        self._tokenize = functools.lru_cache(_REMEMBERED_PARAGRAPHS)(aligner.tokenize)
        self.vocab_size = self._model.get_piece_size()
        self.cls_id, self.sep_id = (self._special_id(piece) for piece in ("[CLS]", "[SEP]"))

    def _special_id(self, piece: str) -> int:
        number = self._model.piece_to_id(piece)
        if self._model.id_to_piece(number) != piece:
            raise UserError(f"the SentencePiece model has no piece {piece}; is it one of ALBERT's?")
        return number

    def pieces_of(self, ids: list[int]) -> list[str]:
        """The pieces with these ids."""
        return self._model.id_to_piece(ids)

    def windows(self, examples: Sequence[SquadExample], first_index: int = 0) -> Iterator[Window]:
        """The windows of examples, the first of which has number `first_index`.

        They have the answer's place where their example has one.
        """
        texts = [
            tokenization.preprocess_text(example.question_text, lower=self._lower)
            for example in examples
        ]
        questions = tokenization.encode_ids_of_all(self._model, texts)
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
        starts = _window_starts(len(paragraph.ids), room, self._doc_stride)
        for number, start in enumerate(starts):
            end = min(start + room, len(paragraph.ids))
            inside = answer is not None and start <= answer[0] and answer[1] < end
            yield Window(
                index,
                number,
                question,
                paragraph,
                start,
                end,
                starts,
                room,
                (answer[0] - start, answer[1] - start) if inside else None,
            )

    @staticmethod
    def _answer_tokens(example: SquadExample, paragraph: Tokens) -> tuple[int, int] | None:
        if not example.orig_answer_text or not len(paragraph.ids):
            return None
        first = example.start_position
        return paragraph.span_of(first, first + len(example.orig_answer_text) - 1)


def _window_starts(length: int, room: int, stride: int) -> tuple[int, ...]:
    """First tokens of the windows over `length` tokens; the last window reaches the end."""
    if room < 1 or stride < 1:
        raise UserError(
            f"windows of {room} tokens every {stride} tokens cover no paragraph; give a larger "
            "max_seq_length, or a smaller max_query_length"
        )
    starts = []
    while length and (not starts or starts[-1] + room < length):
        starts.append(starts[-1] + min(room, stride) if starts else 0)
    return tuple(starts)


@functools.lru_cache(maxsize=8)
def _max_context_windows(starts: tuple[int, ...], room: int, length: int) -> np.ndarray:
    """For each of `length` tokens the number of the window that gives it the most context.

    The context is the smaller of the numbers of tokens to the left and to the right in the window,
    plus 0.01 for each token of the window; of equal windows the first counts.
    """
    best = np.zeros(length, np.int32)
    best_score = np.full(length, -1.0)
    for number, start in enumerate(starts):
        end = min(start + room, length)
        position = np.arange(end - start)
        score = np.minimum(position, end - start - 1 - position) + 0.01 * (end - start)
        better = score > best_score[start:end]
        best[start:end][better] = number
        best_score[start:end][better] = score[better]
    return best


def convert_examples_to_features(
    examples: Iterable[SquadExample],
    tokenizer: tokenization.FullTokenizer,
    max_seq_length: int,
    doc_stride: int,
    max_query_length: int,
    is_training: bool,
    output_fn: Callable[[InputFeatures], None],
    do_lower_case: bool,
) -> None:
    """Converts examples and hands the features to `output_fn`, in order, as they are made.

    Args:
      examples: the examples.
      tokenizer: a tokenizer with a SentencePiece model.
      max_seq_length: length of a feature.
      doc_stride: tokens between the beginnings of two windows.
      max_query_length: tokens of the question that are kept.
      is_training: whether features have the answer's positions.
      output_fn: called with every feature.
      do_lower_case: whether text is lower-cased.
    """
    maker = WindowMaker(tokenizer, max_seq_length, doc_stride, max_query_length, do_lower_case)
    unique_id = FIRST_UNIQUE_ID
    impossible = 0
    for index, example in enumerate(examples):
        for window in maker.windows([example], index):
            feature = _input_features(window, unique_id, maker, max_seq_length, is_training)
            if not is_training:
                feature.is_impossible = example.is_impossible
            output_fn(feature)
            unique_id += 1
            impossible += bool(feature.is_impossible)
    count = unique_id - FIRST_UNIQUE_ID
    tf.logging.info(
        "%d features: %d with an answer, %d without", count, count - impossible, impossible
    )


def model_inputs(
    window: Window, maker: WindowMaker, max_seq_length: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """`input_ids`, `input_mask`, `segment_ids` and `p_mask` of a window: int32 [max_seq_length]."""
    ids, mask, segments = (np.zeros(max_seq_length, np.int32) for _ in range(3))
    p_mask = np.ones(max_seq_length, np.int32)
    first, end = window.doc_offset, window.length - 1
    ids[0] = maker.cls_id
    ids[1 : first - 1] = window.question
    ids[first - 1] = ids[end] = maker.sep_id
    ids[first:end] = window.paragraph.ids[window.begin : window.end]
    mask[: end + 1] = 1
    segments[first : end + 1] = 1
    p_mask[0] = 0
    p_mask[first:end] = 0
    return ids, mask, segments, p_mask


def _input_features(
    window: Window, unique_id: int, maker: WindowMaker, max_seq_length: int, is_training: bool
) -> InputFeatures:
    ids, mask, segments, p_mask = model_inputs(window, maker, max_seq_length)
    start, end = window.positions if is_training else (None, None)
    first = window.doc_offset
    input_ids = ids.tolist()
    return InputFeatures(
        unique_id=unique_id,
        example_index=None if is_training else window.example_index,
        doc_span_index=window.index,
        tok_start_to_orig_index=window.paragraph.starts[window.begin : window.end].tolist(),
        tok_end_to_orig_index=window.paragraph.ends[window.begin : window.end].tolist(),
        token_is_max_context=dict(enumerate(window.max_context.tolist(), start=first)),
        tokens=maker.pieces_of(input_ids[: window.length]),
        input_ids=input_ids,
        input_mask=mask.tolist(),
        segment_ids=segments.tolist(),
        paragraph_len=window.length,
        p_mask=p_mask.tolist(),
        start_position=start,
        end_position=end,
        is_impossible=window.answer is None if is_training else None,
    )
