"""Conversion of a block of text to records."""

from __future__ import annotations

import collections
import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from albert.tasks.pretraining.masking import Masker, MaskingOptions
from albert.tasks.pretraining.pairs import PairMaker, PairOptions, SegmentPair, make_sequences
from albert.tasks.pretraining.records import PairRecordMaker
from albert.tasks.pretraining.text import Block, Documents, PieceEncoder, join_documents

# Number of rows that are processed at a time, so that their arrays fit into the processor's cache.
_ROWS = 256


class DataOptions(NamedTuple):
    """The flags that records depend on, other than those of the tokenizer."""

    dupe_factor: int
    random_seed: int
    pairs: PairOptions
    masking: MaskingOptions


class BlockRecords(NamedTuple):
    """The serialized records of a block, and counts by name."""

    records: list[bytes]
    counts: collections.Counter


class BlockMaker:
    """A maker of records, which depend only on the blocks, the options and a block's number."""

    def __init__(self, blocks: Sequence[Block], encoder: PieceEncoder, options: DataOptions):
        self._blocks, self._encoder, self._options = blocks, encoder, options
        self._masker = Masker(options.masking, encoder.mask_id, encoder.tokenizer.size)
        self._maker = PairRecordMaker(
            options.pairs.max_seq_length, options.masking.max_predictions, encoder.tokenizer.size
        )

    def records(self, number: int) -> BlockRecords:
        """Returns the records of block `number`, with all duplicates, shuffled.

        Raises:
          UserError: the text is invalid.
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
            return BlockRecords([], counts)
        draw.shuffle(pairs)
        documents, records = pair_maker.documents, list[bytes]()
        for start in range(0, len(pairs), _ROWS):
            records += self._made(pairs[start : start + _ROWS], documents, rng, counts)
        return BlockRecords(records, counts)

    def _made(
        self,
        pairs: Sequence[SegmentPair],
        documents: Documents,
        rng: np.random.Generator,
        counts: collections.Counter,
    ) -> Iterator[bytes]:
        """Yields the records of pairs, and adds to the counts."""
        batch = make_sequences(pairs, documents, self._encoder, self._maker.seq_length)
        begins_word = self._encoder.begins_word[batch.ids]
        masked = self._masker.mask(batch.ids, batch.layout, begins_word, rng)
        counts.update(
            records=len(pairs),
            tokens=int(batch.layout.lengths.sum()),
            predictions=int(masked.counts.sum()),
            in_order=int((batch.labels == 0).sum()),
        )
        return self._maker.records(batch, masked, begins_word)

    def _with_others(self, own: Documents, number: int, draw: random.Random) -> Documents:
        """Adds another block's documents if there are fewer than two; no pair has only those."""
        if len(own.ranges) > 1 or len(self._blocks) == 1:
            return own
        other = draw.randrange(len(self._blocks) - 1)
        other += other >= number
        return join_documents(own, self._encoder.documents(self._blocks[other]))
