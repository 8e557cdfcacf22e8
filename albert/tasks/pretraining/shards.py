"""Conversion of text files to files of records, called shards.

Worker processes turn blocks of the text into records one by one, so only a few blocks are in
memory. A shard has the records of a run of blocks, and is reused if it was already made from the
same input. Several processes, also on several hosts, can make the shards together. They need only a
file system that they share. A process takes a shard by its lock. If it is killed, its locks expire,
and others take its shards.
"""

from __future__ import annotations

import collections
import contextlib
import hashlib
import itertools
import math
import os
import time
from collections.abc import Generator, Iterator, Sequence
from typing import NamedTuple

import tensorflow.compat.v1 as tf
import tqdm

from albert.core.errors import UserError
from albert.core.files import sha256_of
from albert.core.locks import Claim
from albert.core.log import progress_bar
from albert.core.text import listed
from albert.data.cached_file import CachedFile, LockLostError
from albert.data.process_pool import ordered_map
from albert.distributed import launcher
from albert.tasks.pretraining.blocks import BlockMaker, DataOptions
from albert.tasks.pretraining.text import Block, PieceEncoder, plan_blocks
from albert.tokenization import FullTokenizer

# Records take a little more room than their text, `dupe_factor` times. This many bytes divided by
# that factor limit what a worker sends. The minimum keeps several documents in a block.
_BLOCK_BYTES = 6 << 20
_LEAST_BLOCK_BYTES, _MOST_BLOCK_BYTES = 64 << 10, 2 << 20
# Raise this when other pieces of a SentencePiece model begin a word.
_WORDS_VERSION = 2
# The totals over a shard's records.
_COUNTS = (
    *("records", "documents", "documents_of_one_sentence", "tokens", "predictions", "in_order"),
    "bytes",
)
# Seconds between two looks at files that other processes make.
_POLL_SECONDS = 0.5
# Another process may be between two files for this long.
_IDLE_SECONDS = 4.0


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
    plan: ShardPlan, tokenizer: FullTokenizer, options: DataOptions, workers: int = 1
) -> collections.Counter:
    """Makes the missing shards, and returns the totals over all shards, by name.

    Other processes may make shards of the same plan at the same time. Each shard is made by one of
    them, and all of them return when all shards are made.

    Raises:
      UserError: a shard's text is invalid, it would be empty, or a file that this program did not
        write has its name; the other shards are still made. Or a shard was removed.
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
        files.append(CachedFile(shard.path, {**made_from, "blocks": blocks}, numbers=_COUNTS))
    kilobytes = sum(map(_size, plan.blocks)) // 1000
    with Claims(files) as claims, progress_bar(kilobytes, "records", "kB") as bar:
        while claims.unfinished():
            # Those that no other process holds.
            for number in claims.taken():
                results = ordered_map(maker.records, plan.shards[number].blocks, workers)
                _make(plan, number, claims, results, bar)
            claims.wait()
    removed = [shard.path for shard in plan.shards if not os.path.exists(shard.path)]
    if removed:
        raise UserError(f"{listed(removed)} was removed meanwhile; run the command again")
    return sum(map(collections.Counter, claims.summaries.values()), collections.Counter[str]())


def _make(
    plan: ShardPlan,
    number: int,
    claims: Claims,
    results: Generator[tuple[list[bytes], collections.Counter], None, None],
    bar: tqdm.tqdm,
) -> None:
    shard, started = plan.shards[number], time.perf_counter()
    sizes = [_size(plan.blocks[block]) for block in shard.blocks]
    try:
        with contextlib.closing(results), claims.files[number].building() as (names, counts):
            counts.update(_write(names[0], zip(sizes, results, strict=True), bar))
            if not counts["records"]:
                raise UserError(
                    f"{shard.path}: its text has no pair of sentences; put one sentence on each "
                    "line"
                )
    except LockLostError as e:
        tf.logging.warning("%s", e)
        claims.release(number)
    except UserError as e:
        claims.mark_failed(number, e)
    else:
        claims.finish(number, counts)
        seconds = time.perf_counter() - started
        text = f"{counts['records']} records of {counts['bytes'] / 1e6:.1f} MB of text"
        tf.logging.info("%s: %s in %.1f s", shard.path, text, seconds)


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


class Claims:
    """The files of all processes, as one of them sees them; a context that releases all locks.

    Each worker of a job begins with its own part of the files, so that the workers rarely meet, and
    continues with the parts of the others. It checks the content of existing files only in its own
    part. A file that appears meanwhile was checked by the process that made it.

    Methods refer to `files` by their numbers; `summaries` has the finished files' by number.
    """

    def __init__(self, files: Sequence[CachedFile]):
        """Raises a `UserError` if another program's file has the name of one of the files."""
        for file in files:
            if file.is_foreign():
                raise UserError(
                    f"{file.paths[0]} exists and was not written by this program, which does not "
                    "replace it; pass another name or remove the file"
                )
        rank, size, count = launcher.started.rank, launcher.started.size, len(files)
        self.files = files
        self.summaries: dict[int, dict] = {}
        self._own = range(rank * count // size, (rank + 1) * count // size)
        self._before = [file.header_state() for file in files]
        self._failures: dict[int, UserError] = {}
        # One for each file that this process holds or has found held, see `Claim`.
        self._claims: dict[int, Claim] = {}
        # When another process held a file, or may have been about to take its first one.
        self._last_held = time.monotonic() if size > 1 else -math.inf

    def __enter__(self) -> Claims:
        return self

    def __exit__(self, *_) -> None:
        for claim in self._claims.values():
            claim.release()

    def unfinished(self) -> list[int]:
        """Returns the numbers of the files that are not finished, this process's part first."""
        start, count = self._own.start, len(self.files)
        order = (*range(start, count), *range(start))
        return [number for number in order if number not in self.summaries]

    def taken(self) -> Iterator[int]:
        """Takes the unfinished files that no other process holds, each when the caller asks for it.

        Never waits, because the caller may hold files that other processes wait for.
        """
        yield from filter(self._take, self.unfinished())

    def finish(self, number: int, summary: dict) -> None:
        """Notes that a file is finished, and releases it."""
        self.summaries[number] = summary
        self._claims.pop(number).release()

    def release(self, number: int) -> None:
        """Releases a file that was not made; any process may take it, this one too."""
        self._claims[number].release()

    def mark_failed(self, number: int, error: UserError) -> None:
        """Notes that this process cannot make a file, and leaves it to the others."""
        is_known = number in self._failures
        self._failures[number] = error
        self.release(number)
        if not is_known and any(other not in self._failures for other in self.unfinished()):
            tf.logging.warning("%s. Continuing with the other files", error)

    def wait(self) -> None:
        """Waits a moment if files are not finished, which other processes then hold.

        Raises:
          UserError: this process failed to make the files that are left, and no other makes them.
        """
        left = self.unfinished()
        is_idle = time.monotonic() - self._last_held > _IDLE_SECONDS
        if left and self._failures.keys() >= set(left) and is_idle:
            more = f" ({len(left)} files were not made)" if len(left) > 1 else ""
            # Only the last failure has not been logged.
            last = [number for number in self._failures if number in left][-1]
            raise UserError(f"{self._failures[last]}{more}")
        if left:
            time.sleep(_POLL_SECONDS)

    def _take(self, number: int) -> bool:
        """Takes a file if no other process holds it; returns whether to make it."""
        file = self.files[number]
        claim = self._claims.setdefault(number, Claim(file.paths[0]))
        try:
            if not claim.take():
                self._last_held = time.monotonic()
                return False
            is_new = file.header_state() != self._before[number]
            if is_new:
                file.check_source()
            summary = file.reusable(
                explain=number not in self._failures,
                check_content=number in self._own and not is_new,
            )
        except UserError as e:
            self.mark_failed(number, e)
            return False
        if summary is not None:
            self.finish(number, summary)
            return False
        if number in self._failures:
            self.release(number)
            return False
        return True
