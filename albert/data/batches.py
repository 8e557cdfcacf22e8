"""Record files as batches for the model: the one place that decides their shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from albert.data.cached_file import Snapshot
from albert.data.order import BucketOrder
from albert.data.records import parsed_batches, sequence_lengths
from albert.devices import device
from albert.distributed import collectives


class Data(NamedTuple):
    """A part of a task's data that is ready to be read.

    Attributes:
      files: of records.
      spec: for `tf.io.parse_example`.
      num_examples: what the length of a training is counted in.
      num_records: in all files together.
      snapshot: what the files were when they were found or made; None if nobody replaces them.
      trims: whether batches may be cut to their longest row: the model does not depend on padding.
      buckets: lengths to one of which they are cut then, see `BucketOrder`; none for multiples of
        16, and for no cut on a device that is to know every shape.
      max_batches: of all workers together in a pass, spread over the records; None for all.
      transform: from a dataset of batches, and the numbers of the first batch and between two of
        this worker's batches, to another dataset; None for no change.
      content: tells the data from other data that may be at the same place.
      source: what the task needs of it besides, to make scores or files of predictions.
    """

    files: list[str]
    spec: Mapping[str, Any]
    num_examples: int
    num_records: int
    snapshot: Snapshot | None = None
    trims: bool = False
    buckets: Sequence[int] = ()
    max_batches: int | None = None
    transform: Callable[[tf.data.Dataset, int, int], tf.data.Dataset] | None = None
    content: str | None = None
    source: Any = None

    def input_fn(
        self,
        batch_size: int,
        shuffle_seed: int | None = None,
        start_batch: int = 0,
        bucket_order: BucketOrder | None = None,
        order: np.ndarray | None = None,
    ) -> Callable[[], tf.data.Dataset]:
        """Returns an `input_fn` of this worker's share of the batches.

        Args:
          batch_size: records in a batch.
          shuffle_seed: of the order, without end; None for one pass in file order.
          start_batch: number of the first batch of all workers together.
          bucket_order: replaces that of the seed.
          order: int [N], the numbers of the records, for a pass in another order than the file's.
        """

        def input_fn() -> tf.data.Dataset:
            batches = parsed_batches(
                self.files,
                self.spec,
                batch_size,
                shuffle_seed=shuffle_seed,
                start_batch=start_batch,
                max_batches=self.max_batches if shuffle_seed is None else None,
                order=order,
                bucket_order=bucket_order,
                pad_remainder=device.is_hpu(),
                trim_padding=is_cut(self.trims, self.buckets),
                lengths=self.buckets,
                rank=collectives.rank(),
                num_workers=collectives.size(),
            )
            if self.snapshot:
                self.snapshot.check()
            if self.transform is None:
                return batches
            return self.transform(batches, start_batch + collectives.rank(), collectives.size())

        return input_fn

    def order(self) -> np.ndarray | None:
        """Returns an order of the records in which batches have the least padding.

        Long ones come first, so that the first batch needs the most memory, and equal ones in file
        order. None for file order, where batches are not cut.

        Raises:
          UserError: a record is damaged.
        """
        if not is_cut(self.trims, self.buckets) or self.max_batches is not None:
            return None
        return np.argsort(-sequence_lengths(self.files, self.spec).max(axis=1), kind="stable")

    def bucket_order(self, step_size: int, seed: int) -> BucketOrder | None:
        """Returns the order of a training in buckets; None if there are none.

        Raises:
          UserError: a record is damaged.
        """
        if not self.buckets:
            return None
        return BucketOrder(sequence_lengths(self.files, self.spec), self.buckets, step_size, seed)


def is_cut(trims: bool, buckets: Sequence[int]) -> bool:
    """Returns whether batches are cut when they are read; see `Data` for the arguments."""
    return trims and (not device.is_hpu() or len(buckets) > 1)


def batch_spec(
    spec: Mapping[str, Any], batch_size: int | None, trims: bool, buckets: Sequence[int] = ()
) -> dict[str, tf.TensorSpec]:
    """Returns the shapes and types of a batch's tensors, by name.

    Args:
      spec: of a record, for `tf.io.parse_example`.
      batch_size: records in a batch; None leaves it open.
      trims, buckets: see `Data`; a length that is known when a batch is read is left open.
    """
    sequence = list(spec["input_mask"].shape)
    read = [*sequence[:-1], None] if is_cut(trims, buckets) else sequence

    def tensor(feature: tf.io.FixedLenFeature) -> tf.TensorSpec:
        shape = read if list(feature.shape) == sequence else feature.shape
        dtype = tf.int32 if feature.dtype.is_integer else feature.dtype
        return tf.TensorSpec([batch_size, *shape], dtype)

    return {name: tensor(feature) for name, feature in spec.items()}
