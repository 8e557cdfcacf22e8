"""Orders of records: functions from the number of a batch to the numbers of its records."""

from __future__ import annotations

import abc
import bisect
import functools
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import tensorflow.compat.v1 as tf


def numbers_in_order(
    count: int, batch_size: int, order: np.ndarray | None, batch: int
) -> np.ndarray:
    """Returns the record numbers of a batch in a pass; in file order if `order` is None."""
    positions = np.arange(batch * batch_size, min(count, (batch + 1) * batch_size))
    return positions if order is None else order[positions]


def shuffled_numbers(count: int, batch_size: int, seed: int, batch: int) -> np.ndarray:
    """Returns the record numbers of a batch in the concatenated permutations of all epochs."""
    position = batch * batch_size + np.arange(batch_size)
    epochs = position // count
    return np.array(
        [
            _kept_permutation(count, seed, int(e))[p]
            for e, p in zip(epochs, position % count, strict=True)
        ]
    )


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
        epochs, positions = np.divmod(first + np.arange(batch_size), count)
        return np.array(
            [self._epoch(int(e))[0][bucket][p] for e, p in zip(epochs, positions, strict=True)]
        )

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
