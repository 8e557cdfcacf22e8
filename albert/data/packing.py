"""Packing of short records into rows of one length, in an order that can be resumed at any row.

See "Efficient Sequence Packing without Cross-contamination" (https://arxiv.org/abs/2107.02027).
"""

from __future__ import annotations

import collections
import functools

import numpy as np
import tensorflow.compat.v1 as tf

from albert.data.order import TrainingOrder, permutation

# Greatest number of records in a row. More would only pack records of a few tokens more densely:
# with 12, 99.8 % of the positions are tokens for the lengths of Wikipedia that the paper reports.
MOST_RECORDS = 12


def pack_lengths(counts: np.ndarray, row_length: int) -> tuple[np.ndarray, np.ndarray]:
    """Packs records, given by their lengths, into rows; returns the kinds of rows.

    From the longest records to the shortest, each goes into the row with the least room that
    suffices, or into a new one. This is the paper's longest-pack-first histogram packing: records
    of one length are placed together, so the time does not depend on their number.

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

    @property
    def records_per_row(self) -> float:
        """Returns the mean number of records in a row."""
        return len(self._lengths) / max(self.num_rows, 1)

    @property
    def density(self) -> float:
        """Returns the fraction of a row's positions that hold a token."""
        return float(self._lengths.sum()) / max(self.num_rows * self._row_length, 1)

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
        before = float(self._lengths.mean()) / self._row_length
        return (
            f"{len(self._lengths)} examples in {self.num_rows} rows, {self.records_per_row:.2f} "
            f"per row and at most {self.num_sequences}; {self.density:.1%} of the positions are "
            f"tokens, {before:.1%} without packing"
        )

    def _table(self, batch_size: int, batch: int) -> np.ndarray:
        """Returns the records of a batch's rows, [rows, `num_sequences`], padded with -1."""
        epochs, positions = np.divmod(batch * batch_size + np.arange(batch_size), self.num_rows)
        return np.array([self._epoch(int(e))[p] for e, p in zip(epochs, positions, strict=True)])

    def _make_epoch(self, epoch: int) -> np.ndarray:
        """Returns the records of an epoch's rows, int32 [`num_rows`, `num_sequences`]."""
        records = permutation(len(self._lengths), self._seed, epoch)
        table = np.full(self.num_rows * self.num_sequences, -1, np.int32)
        table[self._positions] = records[np.argsort(self._lengths[records], kind="stable")]
        rng = np.random.Generator(np.random.PCG64([self._seed, epoch, self.num_rows]))
        return rng.permutation(table.reshape(self.num_rows, self.num_sequences))
