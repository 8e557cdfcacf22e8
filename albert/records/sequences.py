"""Token sequences in the encoder's input format, and windows on longer ones.

A sequence has ids, mask and segments, padded with 0.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from albert.core.errors import UserError
from albert.core.log import LOG
from albert.records.tf_example import entry, varints
from albert.tokenization import FullTokenizer

SEQUENCE_KEYS = ("input_ids", "input_mask", "segment_ids")
# The labels of an example, which may be as many as its tokens.
LABELS = "label_ids"
# Batches are padded to multiples of this length, so that few different shapes occur: the first use
# of a shape is slow in TensorFlow.
LENGTH_STEP = 16
# [CLS] and two [SEP] for a pair of texts; [CLS] and [SEP] for a single text.
_PAIR_SPECIAL, _SINGLE_SPECIAL = 3, 2
_ONE = b"\x01"


class TokenSequence(NamedTuple):
    """A sequence before padding.

    Attributes:
      ids: token ids, including special tokens.
      first: number of tokens in segment 0; the others are in segment 1.
    """

    ids: Sequence[int]
    first: int


def make_sequence(
    ids_a: Sequence[int], ids_b: Sequence[int], cls_id: int, sep_id: int
) -> TokenSequence:
    """Returns [CLS] A [SEP] B [SEP], or [CLS] A [SEP] if B is empty."""
    first = [cls_id, *ids_a, sep_id]
    return TokenSequence([*first, *ids_b, sep_id] if ids_b else first, len(first))


def cut_sequence(
    ids_a: Sequence[int], ids_b: Sequence[int], special_ids: Sequence[int], max_seq_length: int
) -> TokenSequence:
    """Returns one or two texts as a sequence; the longer one is truncated at its end if necessary.

    `ids_a` and `ids_b` are the token ids of the texts; the second may be empty. `special_ids` are
    those of [CLS] and [SEP].
    """
    kept_a, kept_b = max_seq_length - _SINGLE_SPECIAL, 0
    if ids_b:
        kept_a, kept_b = _kept(len(ids_a), len(ids_b), max_seq_length - _PAIR_SPECIAL)
    return make_sequence(ids_a[:kept_a], ids_b[:kept_b], *special_ids)


def sequences_of(
    pairs: Iterable[Sequence[str]], tokenizer: FullTokenizer, max_seq_length: int
) -> list[TokenSequence]:
    """Returns texts or pairs of texts as sequences; the second text of a pair may be empty.

    A warning counts those that are truncated.
    """
    pairs = list(pairs)
    ids_a = tokenizer.encode(pair[0] for pair in pairs)
    ids_b = tokenizer.encode("".join(pair[1:]) for pair in pairs)
    special_ids = tokenizer.cls_id, tokenizer.sep_id
    both = list(zip(ids_a, ids_b, strict=True))
    room = max_seq_length - _SINGLE_SPECIAL
    # A second text has another [SEP].
    if truncated := sum(len(a) + len(b) + bool(b) > room for a, b in both):
        message = "Truncated %d of %d texts to the model's %d tokens"
        LOG.warning(message, truncated, len(both), max_seq_length)
    return [cut_sequence(a, b, special_ids, max_seq_length) for a, b in both]


def _kept(length_a: int, length_b: int, room: int) -> tuple[int, int]:
    """Returns the tokens to keep: the longer text loses some first; of equals, the second does."""
    if length_a + length_b <= room:
        return length_a, length_b
    kept_a = min(length_a, max(room - length_b, (room + 1) // 2))
    return kept_a, room - kept_a


def padded(sequence: TokenSequence, length: int) -> tuple[list[int], list[int], list[int]]:
    """Returns the values of `SEQUENCE_KEYS` for a sequence, padded to a length."""
    used, first = len(sequence.ids), sequence.first
    padding = [0] * (length - used)
    segments = [0] * first + [1] * (used - first)
    return [*sequence.ids, *padding], [1] * used + padding, segments + padding


def sequence_entries(sequences: Iterable[TokenSequence], length: int) -> bytes:
    """Returns the joined entries of a record of the sequences, each padded to `length`."""
    columns: tuple[list[bytes], list[bytes], list[bytes]] = [], [], []
    ids, mask, segments = columns
    for sequence in sequences:
        used = len(sequence.ids)
        padding = bytes(length - used)
        ids += varints(sequence.ids), padding
        # The varint of a number below 128 is one byte.
        mask += _ONE * used, padding
        segments += bytes(sequence.first), _ONE * (used - sequence.first), padding
    values = map(b"".join, columns)
    return b"".join(map(entry, SEQUENCE_KEYS, values))


def window_starts(length: int, room: int, stride: int) -> tuple[int, ...]:
    """Returns the first token of each window over `length` tokens; the last reaches the end."""
    if room < 1 or stride < 1:
        raise UserError(
            f"windows of {room} tokens every {stride} tokens cover no paragraph; pass a larger "
            "max_seq_length or a smaller max_query_length"
        )
    starts: list[int] = []
    while length and (not starts or starts[-1] + room < length):
        starts.append(starts[-1] + min(room, stride) if starts else 0)
    return tuple(starts)


@functools.lru_cache(maxsize=8)
def max_context_windows(starts: tuple[int, ...], room: int, length: int) -> np.ndarray:
    """Returns, for each of `length` tokens, the number of the window with the most context for it.

    The context is the smaller of the numbers of tokens to the left and to the right in the window,
    plus 0.01 for each token of the window. The first of equal windows wins, so that the numbers
    ascend. For three windows of at most 6 tokens on a text of 10:

        >>> max_context_windows((0, 3, 6), room=6, length=10).tolist()
        [0, 0, 0, 0, 0, 1, 1, 1, 2, 2]
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


def positions_in_windows(
    length: int, room: int, positions: np.ndarray
) -> Iterator[tuple[int, np.ndarray]]:
    """Yields the first token of each window, and the tokens whose outputs to take from there.

    Half of a window's tokens are in the next one too. The outputs of a token are taken from the
    window that gives it the most context.

    `positions` are those of the tokens whose outputs are needed, ascending; windows have `room`
    tokens.
    """
    starts = window_starts(length, room, max(room // 2, 1))
    windows = max_context_windows(starts, room, length)[positions]
    bounds = windows.searchsorted(range(len(starts) + 1))
    for number, start in enumerate(starts):
        yield start, positions[bounds[number] : bounds[number + 1]]
