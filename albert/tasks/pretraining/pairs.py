"""Pairs of segments of documents, and their sequences of token ids."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from albert.tasks.pretraining.text import Documents
from albert.tokenization import FullTokenizer


class PairOptions(NamedTuple):
    """The flags that pairs depend on."""

    max_seq_length: int
    short_seq_prob: float
    random_next_sentence: bool


class SegmentPair(NamedTuple):
    """Two segments, as positions of their first tokens and of the tokens after their last.

    `label` is 0 if the second follows the first in its document, otherwise 1.
    """

    a_start: int
    a_end: int
    b_start: int
    b_end: int
    label: int


class PairMaker:
    """A generator of pairs from documents, which works like the reference.

    It takes sentences of a document until they fill a sequence, and splits them at a random place.
    With probability 1/2 it then swaps both parts or, with `random_next_sentence`, replaces the
    second part with sentences of another document.
    """

    def __init__(self, documents: Documents, options: PairOptions, rng: random.Random):
        self._options, self._rng = options, rng
        self._bounds, self._ranges = documents.bounds, documents.ranges
        # Room for tokens other than [CLS] and two [SEP].
        self._max_tokens = options.max_seq_length - 3

    def pairs(self, document: int) -> Iterator[SegmentPair]:
        """Draws the pairs that cover a document; none if there is only one sentence in total."""
        bounds, rng = self._bounds, self._rng
        random_next = self._options.random_next_sentence
        target = self._max_tokens
        if rng.random() < self._options.short_seq_prob:
            target = rng.randint(2, self._max_tokens)
        begin, last = self._ranges[document]
        while begin < last:
            end = min(bisect_left(bounds, bounds[begin] + target, begin + 1), last)
            middle = rng.randint(begin + 1, end - 1) if end - begin > 1 else end
            a = bounds[begin], bounds[middle]
            if middle == end or (random_next and rng.random() < 0.5):
                b = self._random_segment(document, begin, end, target - (a[1] - a[0]))
                # The sentences that `b` replaces are used next.
                end = middle
                if b:
                    yield self._truncated(a, b, label=1)
            else:
                b = bounds[middle], bounds[end]
                swap = not random_next and rng.random() < 0.5
                yield self._truncated(b, a, label=1) if swap else self._truncated(a, b, label=0)
            begin = end

    def _random_segment(
        self, document: int, begin: int, end: int, target: int
    ) -> tuple[int, int] | None:
        """Draws about `target` tokens from another document, or else outside `begin` to `end`."""
        if len(self._ranges) > 1:
            other = self._rng.randrange(len(self._ranges) - 1)
            first, last = self._ranges[other + (other >= document)]
            start = self._rng.randrange(first, last)
        else:
            first, last = self._ranges[document]
            others = last - first - (end - begin)
            if not others:
                return None
            start = first + self._rng.randrange(others)
            if start < begin:
                last = begin
            else:
                start += end - begin
        goal = self._bounds[start] + max(target, 1)
        stop = min(bisect_left(self._bounds, goal, start + 1), last)
        return self._bounds[start], self._bounds[stop]

    def _truncated(self, a: tuple[int, int], b: tuple[int, int], label: int) -> SegmentPair:
        """Truncates a pair: first the longer segment, then both, each at its front and its end."""
        length_a, length_b = a[1] - a[0], b[1] - b[0]
        excess = max(length_a + length_b - self._max_tokens, 0)
        longer = min(abs(length_a - length_b), excess)
        # Of two equally long segments, the reference truncates the second first.
        cut_a = (excess - longer) // 2 + (longer if length_a > length_b else 0)
        return SegmentPair(*self._cut(a, cut_a), *self._cut(b, excess - cut_a), label)

    def _cut(self, segment: tuple[int, int], count: int) -> tuple[int, int]:
        """Removes `count` tokens, each with probability 1/2 from the front or from the end."""
        front = self._rng.getrandbits(count).bit_count() if count else 0
        return segment[0] + front, segment[1] - (count - front)


class Layout:
    """The layout of rows of N pairs, padded to length S.

    Attributes:
      lengths: int [N], number of tokens without padding.
      first_sep, last_sep: int [N], positions of [SEP].
      in_text: bool [N, S], true for tokens of the two segments.
      in_second: bool [N, S], true for the second segment and its [SEP].
      is_real: bool [N, S], true except for padding.
    """

    def __init__(self, length_a: np.ndarray, length_b: np.ndarray, seq_length: int):
        """Computes the layout of segments with these lengths, [N] each."""
        self._positions = np.arange(seq_length, dtype=np.int32)
        self.first_sep = length_a + 1
        self.last_sep = self.first_sep + length_b + 1
        self.lengths = self.last_sep + 1
        after_first = self._positions > self.first_sep[:, None]
        before_last = self._positions < self.last_sep[:, None]
        self.is_real = self._positions <= self.last_sep[:, None]
        self.in_second = after_first & self.is_real
        self.in_text = before_last & (self._positions != self.first_sep[:, None])
        self.in_text[:, 0] = False

    def word_starts(self, begins_word: np.ndarray) -> np.ndarray:
        """Returns text tokens that begin a segment or a word (`begins_word`), both bool [N, S]."""
        starts = begins_word.copy()
        starts[:, 1] = True
        starts[np.arange(len(starts)), self.first_sep + 1] = True
        return starts & self.in_text

    def text_number(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Returns the number of text tokens that precede the given text tokens in their rows."""
        return columns - 1 - (columns > self.first_sep[rows])

    def columns(self, rows: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Returns the columns of text tokens, given their numbers; inverts `text_number`."""
        return numbers + 1 + (numbers + 1 >= self.first_sep[rows])


class SequenceBatch(NamedTuple):
    """A batch of rows made of pairs: ids, int32 [N, S], and the pairs' labels, int32 [N]."""

    ids: np.ndarray
    layout: Layout
    labels: np.ndarray


def make_sequences(
    pairs: Sequence[SegmentPair], documents: Documents, tokenizer: FullTokenizer, seq_length: int
) -> SequenceBatch:
    """Builds the rows of token ids of one or more pairs."""
    a_start, a_end, b_start, b_end, labels = np.array(pairs, np.int32).T
    length_a = a_end - a_start
    layout = Layout(length_a, b_end - b_start, seq_length)
    # Consecutive tokens of a segment are consecutive in `documents.ids`.
    shift = np.where(layout.in_second, (b_start - length_a - 2)[:, None], (a_start - 1)[:, None])
    source = shift + np.arange(seq_length, dtype=np.int32)
    ids = np.take(documents.ids, source, mode="clip") * layout.in_text
    rows = np.arange(len(pairs))
    ids[:, 0] = tokenizer.cls_id
    ids[rows, layout.first_sep] = ids[rows, layout.last_sep] = tokenizer.sep_id
    return SequenceBatch(ids, layout, labels)
