"""Conversion of a block of text to records: TFRecords of `tf.train.Example`."""

from __future__ import annotations

import collections
import functools
import itertools
import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from albert.records import tf_example
from albert.tasks.pretraining.masking import MaskedRows, Masker, MaskingOptions
from albert.tasks.pretraining.pairs import (
    PairMaker,
    PairOptions,
    SegmentPair,
    SequenceBatch,
    make_sequences,
)
from albert.tasks.pretraining.text import Block, Documents, PieceEncoder, join_documents

# Number of rows that are processed at a time, so that their arrays fit into the processor's cache.
_ROWS = 256


class DataOptions(NamedTuple):
    """The flags that records depend on, other than those of the tokenizer."""

    dupe_factor: int
    random_seed: int
    pairs: PairOptions
    masking: MaskingOptions


class BlockMaker:
    """A maker of records, which depend only on the blocks, the options and a block's number."""

    def __init__(self, blocks: Sequence[Block], encoder: PieceEncoder, options: DataOptions):
        self._blocks, self._encoder, self._options = blocks, encoder, options
        self._masker = Masker(options.masking, encoder.mask_id, encoder.tokenizer.size)
        size = max(encoder.tokenizer.size, options.pairs.max_seq_length)
        self._table = tf_example.varint_table(size)

    def records(self, number: int) -> tuple[list[bytes], collections.Counter]:
        """Returns the records of block `number`, with all duplicates, shuffled, and their counts.

        Raises a `UserError` if the text is invalid.
        """
        rng = np.random.Generator(np.random.PCG64([self._options.random_seed, number]))
        draw = random.Random(int(rng.integers(2**63)))
        own = self._encoder.documents(self._blocks[number])
        counts = collections.Counter(
            documents=len(own.ranges),
            documents_of_one_sentence=sum(last - first == 1 for first, last in own.ranges),
        )
        pair_maker = PairMaker(self._with_others(own, number, draw), self._options.pairs, draw)
        pairs = [
            pair
            for _ in range(self._options.dupe_factor)
            for document in range(len(own.ranges))
            for pair in pair_maker.pairs(document)
        ]
        if not pairs:
            return [], counts
        draw.shuffle(pairs)
        documents, records = pair_maker.documents, list[bytes]()
        for start in range(0, len(pairs), _ROWS):
            records += self._made(pairs[start : start + _ROWS], documents, rng, counts)
        return records, counts

    def _made(
        self,
        pairs: Sequence[SegmentPair],
        documents: Documents,
        rng: np.random.Generator,
        counts: collections.Counter,
    ) -> Iterator[bytes]:
        """Yields the records of pairs, and adds to the counts."""
        batch = make_sequences(pairs, documents, self._encoder, self._options.pairs.max_seq_length)
        begins_word = self._encoder.begins_word[batch.ids]
        masked = self._masker.mask(batch.ids, batch.layout, begins_word, rng)
        counts.update(
            records=len(pairs),
            tokens=int(batch.layout.lengths.sum()),
            predictions=int(masked.counts.sum()),
            in_order=int((batch.labels == 0).sum()),
        )
        return pair_records(batch, masked, begins_word, self._table)

    def _with_others(self, own: Documents, number: int, draw: random.Random) -> Documents:
        """Adds another block's documents if there are fewer than two; no pair has only those."""
        if len(own.ranges) > 1 or len(self._blocks) == 1:
            return own
        other = draw.randrange(len(self._blocks) - 1)
        other += other >= number
        return join_documents(own, self._encoder.documents(self._blocks[other]))


def pair_records(
    batch: SequenceBatch,
    masked: MaskedRows,
    begins_word: np.ndarray,
    table: tf_example.VarintTable,
) -> Iterator[bytes]:
    """Yields the record of each row of a batch.

    Args:
      masked: the same rows after masking.
      begins_word: bool [N, S], whether a token begins a word.
      table: has the ids of all tokens, and all positions.
    """
    layout = batch.layout
    boundary = (begins_word | ~layout.in_text) & layout.is_real
    # Numbers below 128 are their own varints.
    columns = {
        "input_ids": _varints_of_rows(table, masked.ids),
        "input_mask": map(bytes, layout.is_real),
        "segment_ids": map(bytes, layout.in_second),
        "token_boundary": map(bytes, boundary),
        "masked_lm_positions": _varints_of_rows(table, masked.positions),
        "masked_lm_ids": _varints_of_rows(table, masked.labels),
    }
    max_predictions = masked.positions.shape[1]
    others = zip(masked.counts.tolist(), batch.labels.tolist(), strict=True)
    for (count, label), *values in zip(others, *columns.values(), strict=True):
        parts = [_weights_entry(count, max_predictions), _label_entry(label)]
        for key, value in zip(columns, values, strict=True):
            parts += (_before(key, len(value)), value)
        yield tf_example.example(b"".join(parts))


def _varints_of_rows(table: tf_example.VarintTable, rows: np.ndarray) -> Iterator[bytes]:
    """Yields the varints of each row of integers [N, M]."""
    content, lengths = table.encode(rows)
    ends = lengths.sum(axis=1).cumsum().tolist()
    for start, end in itertools.pairwise([0, *ends]):
        yield content[start:end]


@functools.cache
def _before(key: str, length: int) -> bytes:
    """Returns the bytes before the values in a feature's entry; the values have `length` bytes."""
    return tf_example.entry(key, bytes(length))[:-length]


@functools.cache
def _weights_entry(count: int, max_predictions: int) -> bytes:
    """Returns the entry of weights: 1.0 for predictions and 0.0 for padding."""
    weights = tf.train.FloatList(value=[1.0] * count + [0.0] * (max_predictions - count))
    feature = {"masked_lm_weights": tf.train.Feature(float_list=weights)}
    return tf.train.Features(feature=feature).SerializeToString()


@functools.cache
def _label_entry(label: int) -> bytes:
    return tf_example.entry("next_sentence_labels", tf_example.varint(label))
