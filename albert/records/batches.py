"""Batches of record files for the model; this module decides the shapes of all batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from albert.core.errors import UserError, graph_message
from albert.devices import device
from albert.distributed import collectives
from albert.records.cached_file import Snapshot
from albert.records.order import BucketOrder, TrainingOrder, shuffled_numbers
from albert.records.records import RecordFile, sequence_lengths
from albert.records.sequences import LABELS, LENGTH_STEP

# Batches that are made at the same time, and those that wait.
_AHEAD = 4
# For functions without conditions on tensors: searching for them takes TensorFlow 0.1 s at every
# start.
_no_autograph = tf.autograph.experimental.do_not_convert


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
        drop_remainder: bool = False,
    ) -> Callable[[], tf.data.Dataset]:
        """Returns an `input_fn` that yields this worker's batches.

        With a seed, the dataset is endless and shuffles all records in every epoch: batch k depends
        only on the files, `batch_size`, the seed and k. Without a seed, the dataset is one pass in
        file order. Of n workers, worker r reads only the batches r, r + n, and so on. A resumed run
        reads only the batches from `start_batch`, counted over all workers.

        Batches are dictionaries of tensors with `batch_size` rows, or a row for each record of
        `training_order`; integers are int32.

        Args:
          training_order: with a seed, the order that replaces the seed's.
          order: int [N], record numbers in the order that replaces file order.
          drop_remainder: in file order, omit a last batch that is not full. Otherwise, on a device
            that must know every shape, its last record is repeated until it is full.
        """

        def input_fn() -> tf.data.Dataset:
            records = RecordFile(self.files)
            if self.snapshot:
                self.snapshot.check()
            rank, workers, pads = collectives.rank(), collectives.size(), device.is_hpu()
            in_order = range(len(records)) if order is None else order
            num_batches = count = end = np.iinfo(np.int64).max
            is_full = training_order is None or training_order.has_fixed_size
            if shuffle_seed is None:
                full = len(records) // batch_size
                end = full if drop_remainder else -(-len(records) // batch_size)
                count = end if self.max_batches is None else min(end, self.max_batches)
                num_batches, is_full = count - start_batch, drop_remainder or pads

            def read(batch: np.ndarray) -> list[bytes]:
                # Added here and not in the graph, so that a resumed run has the same graph.
                number = start_batch + int(batch)
                if shuffle_seed is None:
                    first = number * batch_size
                    content = records.read(in_order[first : first + batch_size])
                    return content + content[-1:] * (batch_size - len(content)) * pads
                if training_order:
                    return records.read(training_order.numbers(batch_size, number))
                return records.read(
                    shuffled_numbers(len(records), batch_size, shuffle_seed, number)
                )

            batches = tf.data.Dataset.range(rank, num_batches, workers)
            if count < end:
                batches = batches.map(_no_autograph(lambda number: number * end // count))
            batches = batches.map(_reading(read, batch_size if is_full else None))
            parse = _no_autograph(self._parse)
            batches = batches.map(parse, num_parallel_calls=_AHEAD, deterministic=True)
            options = tf.data.Options()
            # The end of a session could wait up to a minute for the thread that tunes a pipeline.
            options.autotune.enabled = False
            batches = batches.prefetch(_AHEAD).with_options(options)
            first = start_batch + rank
            if self.transform:
                batches = self.transform(batches, first, workers)
            if training_order:
                batches = training_order.arrange(batches, batch_size, first, workers)
            return batches

        return input_fn

    def _parse(self, content: tf.Tensor) -> dict[str, tf.Tensor]:
        features = {
            key: tf.cast(value, tf.int32) if value.dtype.is_integer else value
            for key, value in tf.io.parse_example(content, self.spec).items()
        }
        return _trim(features, self.buckets) if is_cut(self.trims, self.buckets) else features

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


def _reading(
    read: Callable[[np.ndarray], list[bytes]], num_records: int | None
) -> Callable[[tf.Tensor], tf.Tensor]:
    """Returns a function that reads a batch by its number; its `UserError` stops the dataset."""

    def read_or_fail(batch: np.ndarray) -> tuple[np.ndarray, bytes]:
        try:
            return np.array(read(batch), object), b""
        except UserError as e:
            return np.array([], object), graph_message(e).encode()

    @_no_autograph
    def read_op(batch: tf.Tensor) -> tf.Tensor:
        types = [tf.string, tf.string]
        content, error = tf.numpy_function(read_or_fail, [batch], types, stateful=False)
        # If `read` raised the error, TensorFlow would log a Python traceback.
        with tf.control_dependencies([tf.debugging.Assert(tf.equal(error, ""), [error])]):
            content = tf.identity(content)
        content.set_shape([num_records])
        return content

    return read_op


def map_arrays(
    batches: tf.data.Dataset,
    function: Callable[[int, dict[str, np.ndarray]], Mapping[str, np.ndarray]],
    spec: Mapping[str, Any],
    first: int,
    stride: int,
    num_rows: int | None = None,
    kept: Sequence[str] = (),
) -> tf.data.Dataset:
    """Returns batches that a function makes of a batch's number and its features as arrays.

    Args:
      spec: what the function makes for a row, as for `tf.io.parse_example`; integers are int32.
      first, stride: number of the first batch, and distance between the numbers of two.
      num_rows: rows of the results; None for those that the batches have.
      kept: features of the batches that stay in the result, which need not pass through NumPy.
    """
    types = [tf.int32 if f.dtype.is_integer else f.dtype for f in spec.values()]

    @_no_autograph
    def apply(index: tf.Tensor, features: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        def compute(index: np.ndarray, *arrays: np.ndarray) -> list[np.ndarray]:
            # The number is not part of the graph, which must be the same in a resumed run.
            number = first + int(index) * stride
            made = function(number, dict(zip(features, arrays, strict=True)))
            return [made[key] for key in spec]

        inputs = [index, *features.values()]
        outputs = tf.numpy_function(compute, inputs, types, stateful=False)
        rows = num_rows or inputs[1].shape[0]
        for output, feature in zip(outputs, spec.values(), strict=True):
            output.set_shape([rows, *feature.shape])
        return {name: features[name] for name in kept} | dict(zip(spec, outputs, strict=True))

    mapped = batches.enumerate().map(apply, num_parallel_calls=_AHEAD, deterministic=True)
    return mapped.prefetch(_AHEAD)


def _trim(features: dict[str, tf.Tensor], lengths: Sequence[int]) -> dict[str, tf.Tensor]:
    """Removes the padding that all rows of a batch share at their end; see `Data.buckets`."""
    mask = features["input_mask"]
    longest = mask.shape[-1]
    lengths = tf.constant(lengths or [*range(LENGTH_STEP, longest, LENGTH_STEP), longest])
    used = tf.reduce_max(mask * (1 + tf.range(longest)))
    length = tf.gather(lengths, tf.searchsorted(lengths, [used])[0])
    is_trimmed = {k: v.shape[1:] == mask.shape[1:] and k != LABELS for k, v in features.items()}
    return {k: v[..., :length] if is_trimmed[k] else v for k, v in features.items()}


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
