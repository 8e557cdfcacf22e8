"""Token sequences in the encoder's input format: ids, mask and segments, padded with 0."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from albert.data.tf_example import entry, varints

SEQUENCE_KEYS = ("input_ids", "input_mask", "segment_ids")
# The labels of an example, which may be as many as its tokens.
LABELS = "label_ids"
# Batches are padded to multiples of this length, so that few different shapes occur: the first use
# of a shape is slow in TensorFlow.
LENGTH_STEP = 16
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
