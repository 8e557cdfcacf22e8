"""Pairs of segments as rows of token ids: [CLS] A [SEP] B [SEP] and padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from albert.tasks.pretraining.documents import Documents, Encoder
from albert.tasks.pretraining.pairs import Pair


class Layout:
    """The layout of rows of N pairs, padded to length S.

    Attributes:
      lengths: int [N], tokens that are no padding.
      first_sep, last_sep: int [N], the places of [SEP].
      in_text: bool [N, S], tokens of the two segments.
      in_second: bool [N, S], the second segment and its [SEP].
      is_real: bool [N, S], all but padding.
    """

    def __init__(self, length_a: np.ndarray, length_b: np.ndarray, seq_length: int):
        """Lays out rows for segments of these lengths, [N] each."""
        self._place = np.arange(seq_length, dtype=np.int32)
        self.first_sep = length_a + 1
        self.last_sep = self.first_sep + length_b + 1
        self.lengths = self.last_sep + 1
        after_first = self._place > self.first_sep[:, None]
        before_last = self._place < self.last_sep[:, None]
        self.is_real = self._place <= self.last_sep[:, None]
        self.in_second = after_first & self.is_real
        self.in_text = before_last & (self._place != self.first_sep[:, None])
        self.in_text[:, 0] = False

    def word_starts(self, begins_word: np.ndarray) -> np.ndarray:
        """Returns bool [N, S]: tokens of the text that begin a word, as a segment's first one does.

        Args:
          begins_word: bool [N, S], what is known of the tokens.
        """
        starts = begins_word.copy()
        starts[:, 1] = True
        starts[np.arange(len(starts)), self.first_sep + 1] = True
        return starts & self.in_text

    def text_number(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Returns how many tokens of the text precede these in their rows, which are also of it."""
        return columns - 1 - (columns > self.first_sep[rows])

    def columns(self, rows: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Returns the columns of text tokens, given their numbers; inverts `text_number`."""
        return numbers + 1 + (numbers + 1 >= self.first_sep[rows])


class SequenceBatch(NamedTuple):
    """Rows of pairs.

    Attributes:
      ids: int32 [N, S].
      layout: the places of their segments and special tokens.
      labels: int32 [N], 1 if the second segment does not follow the first.
    """

    ids: np.ndarray
    layout: Layout
    labels: np.ndarray


def make_sequences(
    pairs: Sequence[Pair], documents: Documents, encoder: Encoder, seq_length: int
) -> SequenceBatch:
    """Builds rows of the ids of one or more pairs."""
    a_start, a_end, b_start, b_end, labels = np.array(pairs, np.int32).T
    length_a = a_end - a_start
    layout = Layout(length_a, b_end - b_start, seq_length)
    # Neighbours in a segment are neighbours in `documents.ids`.
    shift = np.where(layout.in_second, (b_start - length_a - 2)[:, None], (a_start - 1)[:, None])
    source = shift + np.arange(seq_length, dtype=np.int32)
    ids = np.take(documents.ids, source, mode="clip") * layout.in_text
    rows = np.arange(len(pairs))
    ids[:, 0] = encoder.cls_id
    ids[rows, layout.first_sep] = ids[rows, layout.last_sep] = encoder.sep_id
    return SequenceBatch(ids, layout, labels)
