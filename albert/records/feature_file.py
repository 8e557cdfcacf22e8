"""Feature files: made from examples by several processes, and reused while nothing changes."""

from __future__ import annotations

import abc
import contextlib
import hashlib
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from albert.core.errors import UserError, reporting
from albert.core.files import sha256_of
from albert.core.log import progress_bar
from albert.distributed import collectives
from albert.records.batches import Data
from albert.records.cached_file import CachedFile, Snapshot, content_of_records
from albert.records.process_pool import Countable, ordered_map


class Chunk(NamedTuple):
    """Some converted examples: records (see `FeatureSource.numbered`), and the companion's part."""

    num_examples: int
    records: list[bytes]
    companion: Any = None


class FeatureSource(abc.ABC):
    """Makes the features of one split of a task's data.

    Attributes:
      spec, trims: see `Data`.
      workers: number of processes that make features.
      chunk: number of examples converted at a time, large enough to outweigh the cost of sending
        them to a process.
    """

    name: str
    cached: CachedFile
    spec: Mapping[str, Any]
    workers: int
    trims: bool
    chunk = 512

    @abc.abstractmethod
    def read(self) -> tuple[Countable[Any], Mapping[str, int]]:
        """Returns the examples, and the number of skipped ones by reason; checks the input once.

        Raises a `UserError` if the input is not valid.
        """

    @abc.abstractmethod
    def convert(self, examples: Sequence[Any], start: int) -> Chunk:
        """Converts examples; the first one has the number `start`."""

    def check_records_of_other_writers(self) -> int:
        """Returns the number of records of a file that this program did not write.

        Raises:
          UserError: they are not features as this source makes them. This is the default, for tasks
            that other programs have no features of.
        """
        raise UserError(f"{self.cached.paths[0]} exists, but this program did not write it")

    def numbered(self, record: bytes, number: int) -> bytes:
        """Returns a record in its final form, which may contain its number in the file."""
        return record

    def writing_companion(
        self, path: str
    ) -> contextlib.AbstractContextManager[Callable[[Any], None]]:
        """Returns a context with a function that adds to the companion, complete at its end."""
        raise NotImplementedError

    def source_of(self, snapshot: Snapshot, is_foreign: bool) -> Any:
        """Returns the data that scoring needs in addition to the records; called on rank 0.

        `snapshot` is the state of the feature file when it was found or made; `is_foreign`, whether
        another program wrote it.
        """
        return None

    def describe(self) -> Iterator[tuple[str, object]]:
        """See `albert.training.task.Split`."""
        examples, left_out = self.read()
        yield f"{self.name} examples", len(examples)
        for reason, count in left_out.items():
            yield "skipped", f"{count}: {reason}"
        yield f"{self.name} features", self.state()

    def num_examples(self) -> int:
        """See `albert.training.task.Split`."""
        return len(self.read()[0])

    def prepared(self) -> Data:
        """See `albert.training.task.Split`.

        If no feature file is valid, one of the programs that need it makes it.
        """

        def check() -> dict:
            num_features = self.check_records_of_other_writers()
            # Reads the input, so that its errors show now and not when predictions are written.
            counts = {"num_examples": self.num_examples(), "num_features": num_features}
            return {**counts, "made_elsewhere": True}

        path = self.cached.paths[0]
        summary, snapshot = self.cached.build_once(self._build, check)
        num_examples, num_features = summary["num_examples"], summary["num_features"]
        tf.logging.info("%s: %d features from %d examples", path, num_features, num_examples)
        content, source = content_of_records(path), None
        if collectives.is_chief():
            source = self.source_of(snapshot, summary.get("made_elsewhere", False))
        counts = num_examples, num_features
        return Data(
            [path], self.spec, *counts, snapshot, self.trims, content=content, source=source
        )

    def state(self) -> str:
        """Returns, human-readable, whether `prepared` would reuse a file; raises its errors."""
        return self.cached.state(self.check_records_of_other_writers)

    def _chunks(self, examples: Countable[Any]) -> Iterator[tuple[list[Any], int]]:
        """Yields the examples that are converted at a time, and the number of the first."""
        rest = iter(examples)
        for start in range(0, len(examples), self.chunk):
            yield list(itertools.islice(rest, self.chunk)), start

    def _build(self) -> dict:
        examples, left_out = self.read()
        started = time.perf_counter()

        with self.cached.building() as (names, summary), contextlib.ExitStack() as stack:
            add = stack.enter_context(self.writing_companion(names[1])) if names[1:] else None
            workers = min(self.workers, -(-len(examples) // self.chunk))
            chunks = ordered_map(lambda x: self.convert(*x), self._chunks(examples), workers)
            num_features = self._write(names[0], chunks, len(examples), add)
            summary |= {"num_examples": len(examples), "num_features": num_features}
            summary["left_out"] = dict(left_out)
        seconds = time.perf_counter() - started
        speed = f"{seconds:.1f} s, {len(examples) / seconds:.0f} examples/s"
        skipped = ", ".join(f"{count} ({reason})" for reason, count in left_out.items()) or "none"
        tf.logging.info("Made %s in %s; skipped: %s", self.cached.paths[0], speed, skipped)
        return summary

    def _write(
        self,
        name: str,
        chunks: Iterable[Chunk],
        total: int,
        add_to_companion: Callable[[Any], None] | None = None,
    ) -> int:
        """Writes the records and the companion; returns the number of records."""
        number = 0
        with (
            tf.io.TFRecordWriter(name) as writer,
            progress_bar(total, "features", "examples") as bar,
        ):
            for chunk in chunks:
                for record in chunk.records:
                    writer.write(self.numbered(record, number))
                    number += 1
                if add_to_companion:
                    add_to_companion(chunk.companion)
                bar.update(chunk.num_examples)
        return number


def sha256_of_inputs(*paths: str) -> str:
    """Returns the hash of one or more input files; raises a `UserError` if one is unreadable."""
    hashes = []
    for path in paths:
        with reporting(f"{path} cannot be read"):
            hashes.append(sha256_of(path))
    return hashes[0] if len(hashes) == 1 else hashlib.sha256("".join(hashes).encode()).hexdigest()
