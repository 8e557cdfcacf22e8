"""Feature files: examples to records by several processes, reused where nothing has changed."""

from __future__ import annotations

import abc
import hashlib
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from albert.core.errors import UserError
from albert.core.files import sha256_of
from albert.core.log import progress_bar
from albert.data.batches import Data
from albert.data.cached_file import CachedFile, Snapshot, content_of_records
from albert.data.process_pool import ordered_map
from albert.distributed import collectives

# Of those of a part at most so many are made to time it, at equal distances.
_SAMPLED_CHUNKS = 4


class FeatureFile(NamedTuple):
    """A feature file that is ready to be read.

    Attributes:
      path: of the records.
      num_examples: examples that the features were made from.
      num_features: records in it.
      snapshot: what the file was when it was found or made; to be checked when it was opened.
      made_elsewhere: whether it has no header of ours.
    """

    path: str
    num_examples: int
    num_features: int
    snapshot: Snapshot
    is_foreign: bool = False


class Chunk(NamedTuple):
    """Some converted examples.

    Attributes:
      num_examples: how many.
      records: of their features; see `FeatureSource.numbered`.
      companion: of what goes into the companion file.
    """

    num_examples: int
    records: list[bytes]
    companion: Any = None


class FeatureSource(abc.ABC):
    """What the features of one part of a task's data are made from, and how.

    Attributes:
      name: of the part, for people.
      cached: the feature file and its companions, with what they are a function of.
      spec: of a record, for `tf.io.parse_example`.
      workers: processes that make features.
      trims: whether batches may be cut to their longest row.
      chunk: examples that are converted at a time; enough to make sending them worth while.
    """

    name: str
    cached: CachedFile
    spec: Mapping[str, Any]
    workers: int
    trims: bool
    chunk = 512

    @abc.abstractmethod
    def read(self) -> tuple[Sequence[Any], Mapping[str, int]]:
        """Returns the examples, and how many were left out, by reason; they are read once.

        Raises:
          UserError: the input is no good.
        """

    @abc.abstractmethod
    def convert(self, examples: Sequence[Any], start: int) -> Chunk:
        """Converts examples, the first of which has number `start`."""

    @abc.abstractmethod
    def count_other_programs_records(self) -> int:
        """Returns the number of records of a file that this program did not write.

        Raises:
          UserError: they are not what would be made.
        """

    def numbered(self, record: bytes, number: int) -> bytes:
        """Returns a record as it is written, which may hold its number in the file."""
        del number
        return record

    def write_companion(self, path: str, parts: list[Any]) -> None:
        """Writes what the chunks have for the companion file."""
        raise NotImplementedError

    def log_left_out(self) -> None:
        """Logs which examples were left out, where a part may lack some."""
        return

    def source_of(self, file: FeatureFile) -> Any:
        """Returns the data that scoring needs besides the records; on rank 0 alone."""
        return None

    def describe(self) -> Iterator[tuple[str, object]]:
        """See `albert.training.task.Part`."""
        examples, left_out = self.read()
        yield f"{self.name} examples", len(examples)
        for reason, count in left_out.items():
            yield "left out", f"{count}: {reason}"
        yield f"{self.name} features", self.state()

    def num_examples(self) -> int:
        """See `albert.training.task.Part`."""
        return len(self.read()[0])

    def prepared(self) -> Data:
        """See `albert.training.task.Part`."""
        file = self.made()
        return Data(
            [file.path],
            self.spec,
            file.num_examples,
            file.num_features,
            file.snapshot,
            self.trims,
            content=content_of_records(file.path),
            source=self.source_of(file) if collectives.is_chief() else None,
        )

    def sample(self, folder: str) -> tuple[Data, float]:
        """See `albert.training.task.Part`."""
        if self.cached.reusable(explain=False) is not None or self.cached.is_foreign():
            return self.prepared(), 0.0
        examples = self.read()[0]
        starts = range(0, len(examples), self.chunk)
        started = time.perf_counter()
        chunks = [
            self.convert(examples[start : start + self.chunk], start)
            for start in starts[:: -(-len(starts) // _SAMPLED_CHUNKS)]
        ]
        path = os.path.join(folder, f"{self.name}.tf_record")
        converted = sum(chunk.num_examples for chunk in chunks)
        num_features, _ = self._write(path, chunks, converted)
        seconds = (time.perf_counter() - started) * len(examples) / converted
        processes = min(self.workers, len(starts), len(os.sched_getaffinity(0)))
        records = round(num_features * len(examples) / converted)
        data = Data([path], self.spec, len(examples), records, trims=self.trims)
        return data, seconds / processes

    def made(self) -> FeatureFile:
        """Returns the feature file, found or made.

        Of several programs that need the same file one makes it and the others wait.

        Raises:
          UserError: the input is no good, or a file is there that is not ours to replace.
        """

        def check() -> dict:
            num_features = self.count_other_programs_records()
            # What is wrong with the input is to show now, not when predictions are written.
            num_examples = self.num_examples()
            return {
                "num_examples": num_examples,
                "num_features": num_features,
                "made_elsewhere": True,
            }

        path = self.cached.paths[0]
        summary, snapshot = self.cached.build_once(self._build, check)
        num_examples = summary["num_examples"]
        # Earlier headers do not say it where they are as many.
        num_features = summary.get("num_features", num_examples)
        tf.logging.info("%s: %d features of %d examples", path, num_features, num_examples)
        is_foreign = summary.get("made_elsewhere", False)
        return FeatureFile(path, num_examples, num_features, snapshot, is_foreign)

    def state(self) -> str:
        """Returns whether `made` would find its file ready, for people.

        Raises:
          UserError: `made` would.
        """
        return self.cached.state(self.count_other_programs_records)

    def _build(self) -> dict:
        """Writes the records and the companion, and returns the summary."""
        examples, left_out = self.read()
        self.log_left_out()
        started = time.perf_counter()

        def convert(start: int) -> Chunk:
            return self.convert(examples[start : start + self.chunk], start)

        with self.cached.building() as (names, summary):
            chunks = ordered_map(convert, range(0, len(examples), self.chunk), self.workers)
            num_features, parts = self._write(names[0], chunks, len(examples))
            if len(names) > 1:
                self.write_companion(names[1], parts)
            summary |= {"num_examples": len(examples), "num_features": num_features}
            summary["left_out"] = dict(left_out)
        seconds = time.perf_counter() - started
        tf.logging.info(
            "%s made in %.1f s, %.0f examples/s; left out: %s",
            self.cached.paths[0],
            seconds,
            len(examples) / seconds,
            ", ".join(f"{count} ({reason})" for reason, count in left_out.items()) or "none",
        )
        return summary

    def _write(self, name: str, chunks: Iterable[Chunk], total: int) -> tuple[int, list[Any]]:
        """Writes the records of chunks; their number, and what goes into the companion."""
        number, parts = 0, []
        with (
            tf.io.TFRecordWriter(name) as writer,
            progress_bar(total, "features", "examples") as bar,
        ):
            for chunk in chunks:
                for record in chunk.records:
                    writer.write(self.numbered(record, number))
                    number += 1
                parts.append(chunk.companion)
                bar.update(chunk.num_examples)
        return number, parts


def sha256_of_input(path: str, what: str = "") -> str:
    """Returns the hash of an input file.

    Raises:
      UserError: it cannot be read; `what` says what kind of file it is.
    """
    try:
        return sha256_of(path)
    except OSError as e:
        raise UserError(f"{what}{path} cannot be read: {e.strerror}") from e


def sha256_of_inputs(paths: Sequence[str]) -> str:
    """Returns the hash of an input file, or of several together; raises as for one."""
    hashes = list(map(sha256_of_input, paths))
    return hashes[0] if len(hashes) == 1 else hashlib.sha256("".join(hashes).encode()).hexdigest()
