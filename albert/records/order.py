"""Orders of records: functions from the number of a batch to the numbers of its records.

They can begin at any batch. `PackedOrder` puts several short records into a row.
"""

from __future__ import annotations

import abc
import bisect
import collections
import functools
from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np
import tensorflow.compat.v1 as tf


def shuffled_numbers(count: int, batch_size: int, seed: int, batch: int) -> np.ndarray:
    """Returns the record numbers of a batch in the concatenated permutations of all epochs."""
    return _epoch_entries(
        lambda epoch: _kept_permutation(count, seed, epoch), count, batch * batch_size, batch_size
    )


def _epoch_entries(
    make_epoch: Callable[[int], np.ndarray], size: int, first: int, count: int
) -> np.ndarray:
    """Returns `count` entries of the concatenated epochs, of `size` entries each, from `first`."""
    epochs, positions = np.divmod(first + np.arange(count), size)
    return np.array([make_epoch(int(e))[p] for e, p in zip(epochs, positions, strict=True)])


def permutation(count: int, seed: int, epoch: int) -> np.ndarray:
    """Returns the numbers below `count` in the shuffled order of an epoch."""
    return np.random.Generator(np.random.PCG64([seed, epoch])).permutation(count)


# For batches, which are much smaller than an epoch.
_kept_permutation = functools.lru_cache(maxsize=4)(permutation)


class TrainingOrder(abc.ABC):
    """An endless order of training records that replaces the shuffled one.

    `has_fixed_size` is whether every batch has as many records as rows.
    """

    has_fixed_size: ClassVar[bool] = True

    @abc.abstractmethod
    def numbers(self, batch_size: int, batch: int) -> np.ndarray:
        """Returns the record numbers of a batch of `batch_size` rows."""

    @abc.abstractmethod
    def log(self, num_steps: int) -> None:
        """Logs what the order does to a training of `num_steps` steps."""

    def arrange(
        self, batches: tf.data.Dataset, batch_size: int, first: int, stride: int
    ) -> tf.data.Dataset:
        """Returns batches whose records are arranged in rows; by default, each record is a row.

        `batches` have the records of `numbers`; `first` is the number of the first one, and
        `stride` the distance between the numbers of successive ones.
        """
        return batches


class BucketOrder(TrainingOrder):
    """The order of a training in which each step has records of one bucket, of similar length.

    Records arrive in the order without buckets, and wait in the smallest bucket that they fit into.
    As soon as a bucket has enough records for a step, they form the next step. Records that wait at
    the end of an epoch stay in their bucket in the next epoch, so no record repeats before all
    others of its bucket were used. A step depends only on the lengths, the buckets, the seed, its
    size and its number, not on the number of workers.
    """

    def __init__(self, lengths: np.ndarray, buckets: Sequence[int], step_size: int, seed: int):
        """Assigns the records to buckets.

        Args:
          lengths: lengths of the sequences of every record, [N, sequences]; the longest sequence
            determines the bucket.
          buckets: the largest length in each bucket, ascending; the last one fits every record.
          step_size: records per step, over all workers and micro-batches.
        """
        self._buckets, self._step_size, self._seed = list(buckets), step_size, seed
        self._bucket_of = np.searchsorted(buckets, lengths.max(axis=1))
        self._counts = np.bincount(self._bucket_of, minlength=len(buckets)).tolist()
        self._tokens = lengths.mean(axis=1).sum()
        self._epoch = functools.lru_cache(maxsize=4)(self._make_epoch)

    def numbers(self, batch_size: int, batch: int) -> np.ndarray:
        """Returns the record numbers of a batch; `batch_size` must divide the step size."""
        step, first = divmod(batch * batch_size, self._step_size)
        epoch, position = self._locate(step)
        buckets = self._epoch(epoch)[1]
        bucket = buckets[position]
        nth = self._steps_before(epoch)[bucket] + np.count_nonzero(buckets[:position] == bucket)
        count, first = self._counts[bucket], int(nth) * self._step_size + first
        return _epoch_entries(lambda epoch: self._epoch(epoch)[0][bucket], count, first, batch_size)

    def log(self, num_steps: int) -> None:
        """Logs the size of the buckets, and the fraction of padding in an epoch.

        Logs a warning if a training of `num_steps` steps misses more records than without buckets.
        """
        counts, buckets = np.array(self._counts), self._buckets
        tf.logging.info(
            "--length_buckets: features of up to %s tokens; padding is %.1f %% of the positions, "
            "%.1f %% if all had %d",
            ", ".join(f"{bucket} ({count})" for count, bucket in zip(counts, buckets, strict=True)),
            100 * (1 - self._tokens / np.dot(counts, buckets)),
            100 * (1 - self._tokens / (counts.sum() * buckets[-1])),
            buckets[-1],
        )
        epoch, position = self._locate(num_steps)
        steps = np.bincount(self._epoch(epoch)[1][:position], minlength=len(counts))
        steps += self._steps_before(epoch)
        left = np.maximum(counts - steps * self._step_size, 0).sum()
        without = max(counts.sum() - num_steps * self._step_size, 0)
        if left > without:
            tf.logging.warning(
                "--length_buckets: %d features are in none of the %d steps of %d; without buckets "
                "it would be %d. Their buckets do not fill up; use fewer buckets or more epochs to "
                "include them",
                left,
                num_steps,
                self._step_size,
                without,
            )

    def _steps_before(self, epoch: int) -> list[int]:
        """Returns the number of complete steps of each bucket before an epoch."""
        return [epoch * count // self._step_size for count in self._counts]

    def _locate(self, step: int) -> tuple[int, int]:
        """Returns the epoch that completes a step, and the step's position among that epoch's."""
        # The upper bound of the search: every bucket holds less than a step of waiting records.
        most = (step + len(self._buckets)) * self._step_size // sum(self._counts) + 1

        def done(epoch: int) -> int:
            return sum(self._steps_before(epoch))

        epoch = bisect.bisect_right(range(most + 1), step, key=done) - 1
        return epoch, step - done(epoch)

    def _make_epoch(self, epoch: int) -> tuple[list[np.ndarray], np.ndarray]:
        """Returns the records of an epoch by bucket, and the buckets of its steps, in order."""
        records = permutation(len(self._bucket_of), self._seed, epoch)
        by_bucket = np.argsort(self._bucket_of[records], kind="stable")
        positions = np.split(by_bucket, np.cumsum(self._counts)[:-1])
        waiting = [epoch * count % self._step_size for count in self._counts]
        full = [
            own[self._step_size - 1 - before :: self._step_size]
            for own, before in zip(positions, waiting, strict=True)
        ]
        buckets = np.repeat(np.arange(len(full)), [len(own) for own in full])
        return [records[own] for own in positions], buckets[np.argsort(np.concatenate(full))]


# Greatest number of records in a row. More would only pack records of a few tokens more densely:
# with 12, 99.8 % of the positions are tokens for the lengths of Wikipedia that the paper reports.
MOST_RECORDS = 12


def pack_lengths(counts: np.ndarray, row_length: int) -> tuple[np.ndarray, np.ndarray]:
    """Packs records, given by their lengths, into rows; returns the kinds of rows.

    See "Efficient Sequence Packing without Cross-contamination" (https://arxiv.org/abs/2107.02027).
    From the longest records to the shortest, each goes into the row with the least room that
    suffices, or into a new one. This is the paper's longest-pack-first histogram packing: records
    of one length are placed together, so the time does not depend on their number. Records of
    8, 5, 5, 3, 2 and 1 tokens fill three rows of 8:

        >>> kinds, numbers = pack_lengths(np.bincount([8, 5, 5, 3, 2, 1]), row_length=8)
        >>> kinds[:, :3].tolist(), numbers.tolist()
        ([[8, 0, 0], [5, 3, 0], [5, 2, 1]], [1, 1, 1])

    Args:
      counts: int [L + 1], the number of records of each length from 0 to the row length L.

    Returns:
      int [R, `MOST_RECORDS`], the lengths of the records in each kind of row, from the longest to
      the shortest and padded with 0; and int [R], the number of rows of each kind.
    """
    # By the room that is left: the rows that can take another record, as [lengths, number].
    open_rows = collections.defaultdict[int, list](list)
    kinds: list[tuple[tuple[int, ...], int]] = []
    for length in range(row_length, 0, -1):
        left = int(counts[length])
        while left:
            room = next((r for r in range(length, row_length) if open_rows[r]), row_length)
            lengths, number = open_rows[room].pop() if room < row_length else ((), left)
            # A row that has taken one of these records has the least room for the next.
            each = min(room // length, MOST_RECORDS - len(lengths), left)
            taken = min(left // each, number)
            if room < row_length and taken < number:
                open_rows[room].append((lengths, number - taken))
            left -= taken * each
            lengths, room = lengths + (length,) * each, room - length * each
            if len(lengths) < MOST_RECORDS and room:
                open_rows[room].append((lengths, taken))
            else:
                kinds.append((lengths, taken))
    for rows in open_rows.values():
        kinds += rows
    table = np.zeros([len(kinds), MOST_RECORDS], np.int64)
    for row, (lengths, _) in zip(table, kinds, strict=True):
        row[: len(lengths)] = lengths
    return table, np.array([number for _, number in kinds], np.int64)


class PackedOrder(TrainingOrder):
    """The order of a training in which a row holds several records; one epoch has every record.

    The rows of every epoch have the same combinations of lengths. The records of each length, and
    the rows, are shuffled again in each. A batch depends only on the lengths, the seed, its size
    and its number.

    Attributes:
      kinds: int [R, `MOST_RECORDS`], the lengths in each kind of row; see `pack_lengths`.
      num_rows: the number of rows in an epoch.
      num_sequences: greatest number of records in a row.
    """

    has_fixed_size = False

    def __init__(self, lengths: np.ndarray, row_length: int, seed: int):
        """Packs the records of `lengths`, int [N], each from 1 to `row_length`."""
        self._lengths, self._row_length, self._seed = lengths, row_length, seed
        self.kinds, numbers = pack_lengths(
            np.bincount(lengths, minlength=row_length + 1), row_length
        )
        self.num_rows = int(numbers.sum())
        self.num_sequences = int((self.kinds > 0).sum(axis=1).max(initial=0))
        kinds = self.kinds[:, : self.num_sequences].astype(np.uint16)
        rows = np.repeat(kinds, numbers, axis=0).ravel()
        # The positions of the records in the rows, ordered by the records' lengths.
        positions = np.argsort(rows, kind="stable").astype(np.int32)
        self._positions = positions[np.count_nonzero(rows == 0) :]
        self._epoch = functools.lru_cache(maxsize=2)(self._make_epoch)

    def numbers(self, batch_size: int, batch: int) -> np.ndarray:
        """Returns the record numbers of a batch of rows, row by row."""
        table = self._table(batch_size, batch)
        return table[table >= 0]

    def rows(self, batch_size: int, batch: int) -> np.ndarray:
        """Returns the row of each record of a batch, int32, in the order of `numbers`."""
        return np.nonzero(self._table(batch_size, batch) >= 0)[0].astype(np.int32)

    def log(self, num_steps: int) -> None:
        tf.logging.info("--pack_sequences: %s", self.summary())

    def summary(self) -> str:
        """Returns a human-readable text on how densely the rows are packed."""
        count, before = len(self._lengths), float(self._lengths.mean()) / self._row_length
        per_row = count / max(self.num_rows, 1)
        return (
            f"{count} examples in {self.num_rows} rows, {per_row:.2f} per row and at most "
            f"{self.num_sequences}; {before * per_row:.1%} of the positions are tokens, "
            f"{before:.1%} without packing"
        )

    def _table(self, batch_size: int, batch: int) -> np.ndarray:
        """Returns the records of a batch's rows, [rows, `num_sequences`], padded with -1."""
        return _epoch_entries(self._epoch, self.num_rows, batch * batch_size, batch_size)

    def _make_epoch(self, epoch: int) -> np.ndarray:
        """Returns the records of an epoch's rows, int32 [`num_rows`, `num_sequences`]."""
        records = permutation(len(self._lengths), self._seed, epoch)
        table = np.full(self.num_rows * self.num_sequences, -1, np.int32)
        table[self._positions] = records[np.argsort(self._lengths[records], kind="stable")]
        rng = np.random.Generator(np.random.PCG64([self._seed, epoch, self.num_rows]))
        return rng.permutation(table.reshape(self.num_rows, self.num_sequences))
