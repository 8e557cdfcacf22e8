"""Batches of record files for the model; this module decides the shapes of all batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from albert.devices import device
from albert.distributed import collectives
from albert.records.cached_file import Snapshot
from albert.records.order import BucketOrder, TrainingOrder
from albert.records.records import parsed_batches, sequence_lengths
from albert.records.sequences import LABELS


class Data(NamedTuple):
    """A prepared split of a task's data.

    Attributes:
      spec: features of a record, for `tf.io.parse_example`.
      num_examples: number of training examples, which determines the number of steps.
      snapshot: state of the files when found or made; None if no process replaces them.
      trims: whether batches may be shortened to their longest row, which requires a model whose
        results do not depend on padding.
      buckets: lengths to which batches are then shortened, see `BucketOrder`. If empty, batches are
        shortened to multiples of 16, or not at all on a device that must know every shape.
      max_batches: most batches in a pass, over all workers and evenly spread over the records; None
        for all.
      packing: order of a training with several records per row; None for one record per row.
      transform: maps a dataset of batches to another dataset, given also the number of this
        worker's first batch and the distance between its batches; None for no change.
      content: identifies the data among other data at the same path.
      source: additional data that the task needs to compute scores or write predictions.
    """

    files: list[str]
    spec: Mapping[str, Any]
    num_examples: int
    num_records: int
    snapshot: Snapshot | None = None
    trims: bool = False
    buckets: Sequence[int] = ()
    max_batches: int | None = None
    packing: TrainingOrder | None = None
    transform: Callable[[tf.data.Dataset, int, int], tf.data.Dataset] | None = None
    content: str | None = None
    source: Any = None

    def input_fn(
        self,
        batch_size: int,
        shuffle_seed: int | None = None,
        start_batch: int = 0,
        training_order: TrainingOrder | None = None,
        order: np.ndarray | None = None,
    ) -> Callable[[], tf.data.Dataset]:
        """Returns an `input_fn` that yields this worker's batches; see `parsed_batches`."""

        def input_fn() -> tf.data.Dataset:
            batches = parsed_batches(
                self.files,
                self.spec,
                batch_size,
                shuffle_seed=shuffle_seed,
                start_batch=start_batch,
                max_batches=self.max_batches,
                order=order,
                training_order=training_order,
                pad_remainder=device.is_hpu(),
                trim_padding=is_cut(self.trims, self.buckets),
                lengths=self.buckets,
                rank=collectives.rank(),
                num_workers=collectives.size(),
            )
            if self.snapshot:
                self.snapshot.check()
            first, stride = start_batch + collectives.rank(), collectives.size()
            if self.transform:
                batches = self.transform(batches, first, stride)
            if training_order:
                batches = training_order.arrange(batches, batch_size, first, stride)
            return batches

        return input_fn

    def order(self) -> np.ndarray | None:
        """Returns the order of the records in which batches have the least padding.

        Long records come first, so that the first batch needs the most memory; records of equal
        length stay in file order. Returns None, for file order, if batches are not shortened.
        Raises a `UserError` if a record is damaged.
        """
        if not is_cut(self.trims, self.buckets) or self.max_batches is not None:
            return None
        lengths = sequence_lengths(self.files, self.spec).max(axis=1)
        # Half the memory of NumPy's integers: it is held while the task predicts.
        return np.argsort(-lengths, kind="stable").astype(np.int32)

    def training_order(self, step_size: int, seed: int) -> TrainingOrder | None:
        """Returns a training's order in packed rows or buckets, or None; raises as `order` does."""
        if self.packing:
            return self.packing
        if not self.buckets:
            return None
        return BucketOrder(sequence_lengths(self.files, self.spec), self.buckets, step_size, seed)


def is_cut(trims: bool, buckets: Sequence[int]) -> bool:
    """Returns whether batches are shortened when they are read; see `Data` for the arguments."""
    return trims and (not device.is_hpu() or len(buckets) > 1)


def batch_spec(
    spec: Mapping[str, Any], batch_size: int | None, trims: bool, buckets: Sequence[int] = ()
) -> dict[str, tf.TensorSpec]:
    """Returns the shapes and types of a batch's tensors, by name.

    Args:
      batch_size: records per batch; None for any number.
      spec, trims, buckets: see `Data`; the sequence dimension is None if batches are shortened.
    """
    sequence = list(spec["input_mask"].shape)
    read = [*sequence[:-1], None] if is_cut(trims, buckets) else sequence

    def tensor(name: str, feature: tf.io.FixedLenFeature) -> tf.TensorSpec:
        is_sequence = list(feature.shape) == sequence and name != LABELS
        shape = read if is_sequence else feature.shape
        dtype = tf.int32 if feature.dtype.is_integer else feature.dtype
        return tf.TensorSpec([batch_size, *shape], dtype)

    return {name: tensor(name, feature) for name, feature in spec.items()}
