"""Conversion of text files to files of records, called shards.

Worker processes turn blocks of the text into records one by one, so only a few blocks are in
memory. A shard has the records of a run of blocks, and is reused if it was already made from the
same input. Several processes, also on several hosts, can each make a fixed part of the shards.
"""

from __future__ import annotations

import collections
import contextlib
import hashlib
import itertools
import time
from collections.abc import Generator, Iterator, Sequence
from typing import NamedTuple

import tensorflow.compat.v1 as tf
import tqdm

from albert.core.errors import UserError
from albert.core.files import sha256_of
from albert.core.log import progress_bar
from albert.records.cached_file import CachedFile
from albert.records.process_pool import ordered_map
from albert.tasks.pretraining.blocks import BlockMaker, DataOptions
from albert.tasks.pretraining.text import Block, PieceEncoder, plan_blocks
from albert.tokenization import FullTokenizer

# Records take a little more room than their text, `dupe_factor` times. This many bytes divided by
# that factor limit what a worker sends. The minimum keeps several documents in a block.
_BLOCK_BYTES = 6 << 20
_LEAST_BLOCK_BYTES, _MOST_BLOCK_BYTES = 64 << 10, 2 << 20
# Raise this when other pieces of a SentencePiece model begin a word.
_WORDS_VERSION = 2


class Shard(NamedTuple):
    """A file of records, and the numbers of its blocks."""

    path: str
    blocks: range


class ShardPlan(NamedTuple):
    """All blocks of the text files, and the shards that they belong to."""

    files: list[str]
    blocks: list[Block]
    shards: list[Shard]


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
    shards = [
        Shard(output, range(start, end))
        for output, start, end in zip(outputs, [0, *ends[:-1]], ends, strict=True)
    ]
    return ShardPlan(list(files), blocks, shards)


def make_shards(
    plan: ShardPlan,
    tokenizer: FullTokenizer,
    options: DataOptions,
    workers: int = 1,
    part: tuple[int, int] = (0, 1),
) -> collections.Counter:
    """Makes the missing shards of a part, and returns the totals over its shards, by name.

    `part` is its number, from 0, and the number of parts, which are runs of shards.

    Raises:
      UserError: a shard's text is invalid, it would be empty or cannot be written, or a file that
        this program did not write has its name; the other shards are still made.
    """
    maker = BlockMaker(plan.blocks, PieceEncoder(tokenizer), options)
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
    files = []
    for shard in plan.shards:
        blocks = [shard.blocks.start, shard.blocks.stop, len(plan.blocks)]
        files.append(CachedFile(shard.path, {**made_from, "blocks": blocks}))
    for file in files:
        if file.is_foreign():
            raise UserError(
                f"{file.paths[0]} exists and was not written by this program, which does not "
                "replace it; pass another name or remove the file"
            )
    begin, end = (len(files) * number // part[1] for number in (part[0], part[0] + 1))
    kilobytes = sum(_size(plan.blocks[k]) for one in plan.shards[begin:end] for k in one.blocks)
    totals, failures = collections.Counter[str](), list[UserError]()
    with progress_bar(kilobytes // 1000, "records", "kB") as bar:
        for shard, file in zip(plan.shards[begin:end], files[begin:end], strict=True):
            try:
                with file.lock():
                    made = file.reusable()
                    if made is None:
                        results = ordered_map(maker.records, shard.blocks, workers)
                        sizes = [_size(plan.blocks[block]) for block in shard.blocks]
                        made = _make(shard, file, sizes, results, bar)
                totals.update(made)
            except UserError as e:
                failures.append(e)
                if file is not files[end - 1]:
                    tf.logging.warning("%s. Continuing with the other files", e)
    if failures:
        more = f" ({len(failures)} files were not made)" if len(failures) > 1 else ""
        raise UserError(f"{failures[-1]}{more}")
    return totals


def _make(
    shard: Shard,
    file: CachedFile,
    sizes: Sequence[int],
    results: Generator[tuple[list[bytes], collections.Counter], None, None],
    bar: tqdm.tqdm,
) -> dict:
    """Writes a shard from the records of its blocks, and returns its summary."""
    started = time.perf_counter()
    with contextlib.closing(results), file.building() as (names, counts):
        counts.update(_write(names[0], zip(sizes, results, strict=True), bar))
        if not counts["records"]:
            raise UserError(
                f"{shard.path}: its text has no pair of sentences; put one sentence on each line"
            )
    text = f"{counts['records']} records of {counts['bytes'] / 1e6:.1f} MB of text"
    tf.logging.info("%s: %s in %.1f s", shard.path, text, time.perf_counter() - started)
    return counts


def _size(block: Block) -> int:
    return sum(span.end - span.start for span in block)


def _write(
    path: str,
    results: Iterator[tuple[int, tuple[list[bytes], collections.Counter]]],
    bar: tqdm.tqdm,
) -> collections.Counter:
    """Writes records of blocks, given with the blocks' sizes in bytes; returns the total counts."""
    total = collections.Counter(records=0)
    with tf.io.TFRecordWriter(path) as writer:
        for size, (records, counts) in results:
            for record in records:
                writer.write(record)
            total.update(counts, bytes=size)
            bar.update(size // 1000)
    return total
