"""Conversion of text files to files of records, called shards.

Worker processes turn blocks of the text into records one by one, so only a few blocks are in
memory. A shard has the records of a run of blocks, and is reused if it was already made from the
same input. Several processes, also on several hosts, can each make a fixed part of the shards.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import hashlib
import itertools
import random
import time
from collections.abc import Generator, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf
import tqdm

from albert.core.errors import UserError
from albert.core.files import sha256_of
from albert.core.log import progress_bar
from albert.records import tf_example
from albert.records.cached_file import CachedFile
from albert.records.process_pool import ordered_map
from albert.tasks.pretraining.masking import MaskedRows, Masker, MaskingOptions
from albert.tasks.pretraining.pairs import (
    PairMaker,
    PairOptions,
    SegmentPair,
    SequenceBatch,
    make_sequences,
)
from albert.tasks.pretraining.text import Block, Documents, encoded, plan_blocks, word_beginnings
from albert.tokenization import FullTokenizer

# Records take a little more room than their text, `dupe_factor` times. This many bytes divided by
# that factor limit what a worker sends. The minimum keeps several documents in a block.
_BLOCK_BYTES = 6 << 20
_LEAST_BLOCK_BYTES, _MOST_BLOCK_BYTES = 64 << 10, 2 << 20
# Raise this when other pieces of a SentencePiece model begin a word.
_WORDS_VERSION = 2
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

    def __init__(self, blocks: Sequence[Block], tokenizer: FullTokenizer, options: DataOptions):
        self._blocks, self._tokenizer, self._options = blocks, tokenizer, options
        self._masker = Masker(options.masking, tokenizer.mask_id, tokenizer.size)
        self._begins_word = word_beginnings(tokenizer)
        size = max(tokenizer.size, options.pairs.max_seq_length)
        self._table = tf_example.varint_table(size)

    def records(self, number: int) -> tuple[list[bytes], collections.Counter]:
        """Returns the records of block `number`, with all duplicates, shuffled, and their counts.

        Raises a `UserError` if the text is invalid.
        """
        rng = np.random.Generator(np.random.PCG64([self._options.random_seed, number]))
        draw = random.Random(int(rng.integers(2**63)))
        block, blocks = self._blocks[number], self._blocks
        own = documents = encoded(block, self._tokenizer)
        counts = collections.Counter(
            documents=len(own.ranges),
            documents_of_one_sentence=sum(last - first == 1 for first, last in own.ranges),
            bytes=_size(block),
        )
        if len(own.ranges) < 2 and len(blocks) > 1:
            # The only document of a block is paired with those of another block.
            other = draw.randrange(len(blocks) - 1)
            other += other >= number
            documents = encoded((*block, *blocks[other]), self._tokenizer)
        pair_maker = PairMaker(documents, self._options.pairs, draw)
        pairs = [
            pair
            for _ in range(self._options.dupe_factor)
            for document in range(len(own.ranges))
            for pair in pair_maker.pairs(document)
        ]
        draw.shuffle(pairs)
        records = list[bytes]()
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
        length = self._options.pairs.max_seq_length
        batch = make_sequences(pairs, documents, self._tokenizer, length)
        begins_word = self._begins_word[batch.ids]
        masked = self._masker.mask(batch.ids, batch.layout, begins_word, rng)
        counts.update(
            records=len(pairs),
            tokens=int(batch.layout.lengths.sum()),
            predictions=int(masked.counts.sum()),
            in_order=int((batch.labels == 0).sum()),
        )
        return pair_records(batch, masked, begins_word, self._table)


def pair_records(
    batch: SequenceBatch, masked: MaskedRows, begins_word: np.ndarray, table: tf_example.VarintTable
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
        "next_sentence_labels": map(bytes, batch.labels[:, None].astype(np.uint8)),
        "input_ids": _varints_of_rows(table, masked.ids),
        "input_mask": map(bytes, layout.is_real),
        "segment_ids": map(bytes, layout.in_second),
        "token_boundary": map(bytes, boundary),
        "masked_lm_positions": _varints_of_rows(table, masked.positions),
        "masked_lm_ids": _varints_of_rows(table, masked.labels),
    }
    max_predictions = masked.positions.shape[1]
    for count, *values in zip(masked.counts.tolist(), *columns.values(), strict=True):
        entries = map(tf_example.entry, columns, values)
        yield tf_example.example(b"".join((_weights_entry(count, max_predictions), *entries)))


def _varints_of_rows(table: tf_example.VarintTable, rows: np.ndarray) -> Iterator[bytes]:
    """Yields the varints of each row of integers [N, M]."""
    content, lengths = table.encode(rows)
    ends = lengths.sum(axis=1).cumsum().tolist()
    for start, end in itertools.pairwise([0, *ends]):
        yield content[start:end]


@functools.cache
def _weights_entry(count: int, max_predictions: int) -> bytes:
    """Returns the entry of weights: 1.0 for predictions and 0.0 for padding."""
    weights = tf.train.FloatList(value=[1.0] * count + [0.0] * (max_predictions - count))
    feature = {"masked_lm_weights": tf.train.Feature(float_list=weights)}
    return tf.train.Features(feature=feature).SerializeToString()


class ShardPlan(NamedTuple):
    """All blocks of the text files, and the numbers of those in each shard, by its path."""

    files: list[str]
    blocks: list[Block]
    shards: dict[str, range]


def plan_shards(
    files: Sequence[str], outputs: Sequence[str], dupe_factor: int, one_of_each_file: bool
) -> ShardPlan:
    """Distributes text files over shards.

    If the text has fewer blocks of the usual size than there are shards, the blocks are smaller.
    With `one_of_each_file`, each file makes one shard; otherwise the text is split evenly. Raises a
    `UserError` if a file cannot be used, or the text is too short for that number of shards.
    """
    block_bytes = min(max(_BLOCK_BYTES // dupe_factor, _LEAST_BLOCK_BYTES), _MOST_BLOCK_BYTES)
    if one_of_each_file:
        parts = [plan_blocks([file], block_bytes) for file in files]
        blocks = list(itertools.chain.from_iterable(parts))
        ends = list(itertools.accumulate(map(len, parts)))
    else:
        blocks = plan_blocks(files, block_bytes)
        while len(blocks) < len(outputs) and block_bytes > 1:
            block_bytes //= 2
            blocks = plan_blocks(files, block_bytes)
        ends = [len(blocks) * (shard + 1) // len(outputs) for shard in range(len(outputs))]
    if len(blocks) < len(outputs):
        raise UserError(
            f"the text is too short for {len(outputs)} output files: it has {len(blocks)} "
            "documents, and every file needs at least one"
        )
    ranges = itertools.starmap(range, itertools.pairwise([0, *ends]))
    return ShardPlan(list(files), blocks, dict(zip(outputs, ranges, strict=True)))


def make_shards(
    plan: ShardPlan,
    tokenizer: FullTokenizer,
    options: DataOptions,
    workers: int = 1,
    part: tuple[int, int] = (0, 1),
) -> collections.Counter:
    """Makes the missing shards of a part, and returns the totals over its shards, by name.

    `part` is its number, from 0, and the number of parts, which are runs of shards. Raises a
    `UserError` if a shard's text is invalid, it would be empty or cannot be written, or a file that
    this program did not write has its name.
    """
    maker = BlockMaker(plan.blocks, tokenizer, options)
    hashes = list(ordered_map(sha256_of, plan.files, workers))
    made_from = {
        **({} if tokenizer.is_wordpiece else {"rules of version": _WORDS_VERSION}),
        "input_sha256": hashlib.sha256(" ".join(hashes).encode()).hexdigest(),
        "tokenizer_sha256": tokenizer.sha256,
        **tokenizer.normalization._asdict(),
        "dupe_factor": options.dupe_factor,
        "random_seed": options.random_seed,
        **options.pairs._asdict(),
        **options.masking._asdict(),
    }
    shards = []
    for path, numbers in plan.shards.items():
        blocks = [numbers.start, numbers.stop, len(plan.blocks)]
        file = CachedFile(path, {**made_from, "blocks": blocks})
        if file.is_foreign():
            raise UserError(
                f"{path} exists and was not written by this program, which does not replace it; "
                "pass another name or remove the file"
            )
        shards.append((file, numbers))
    begin, end = (len(shards) * number // part[1] for number in (part[0], part[0] + 1))
    shards = shards[begin:end]
    kilobytes = sum(_size(plan.blocks[number]) for _, numbers in shards for number in numbers)
    totals = collections.Counter[str]()
    with progress_bar(kilobytes // 1000, "records", "kB") as bar:
        for file, numbers in shards:
            with file.lock():
                made = file.reusable()
                if made is None:
                    made = _make(file, ordered_map(maker.records, numbers, workers), bar)
            totals.update(made)
    return totals


def _make(
    file: CachedFile,
    results: Generator[tuple[list[bytes], collections.Counter], None, None],
    bar: tqdm.tqdm,
) -> dict:
    """Writes a shard from the records of its blocks; returns its summary."""
    started, counts = time.perf_counter(), collections.Counter(records=0)
    with contextlib.closing(results), file.building() as (names, summary):
        with tf.io.TFRecordWriter(names[0]) as writer:
            for records, more in results:
                for record in records:
                    writer.write(record)
                counts.update(more)
                bar.update(more["bytes"] // 1000)
        if not counts["records"]:
            raise UserError(
                f"{file.paths[0]}: its text has no pair of sentences; put one sentence on each line"
            )
        summary.update(counts)
    text = f"{counts['records']} records of {counts['bytes'] / 1e6:.1f} MB of text"
    tf.logging.info("%s: %s in %.1f s", file.paths[0], text, time.perf_counter() - started)
    return summary


def _size(block: Block) -> int:
    return sum(span.end - span.start for span in block)
