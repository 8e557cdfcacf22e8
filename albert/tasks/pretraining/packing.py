"""Rows that hold several examples: their order, their size, and their features."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf
from google.protobuf.message import DecodeError

from albert.core.errors import UserError
from albert.data.packing import PackedOrder
from albert.data.process_pool import ordered_map
from albert.data.records import RecordFile, no_autograph
from albert.data.sequences import SEQUENCE_KEYS
from albert.tasks.pretraining.head import (
    EXAMPLE_WEIGHTS,
    FIRST_POSITIONS,
    POSITION_IDS,
    SEQUENCE_IDS,
)
from albert.tasks.pretraining.input_pipeline import RecordOptions

_PREDICTION_KEYS = ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights")
_LABELS = "next_sentence_labels"


class ExampleSizes(NamedTuple):
    """The numbers of tokens without padding, and of masked tokens, of N examples, int [N]."""

    lengths: np.ndarray
    predictions: np.ndarray


def read_sizes(files: Sequence[str], options: RecordOptions, workers: int) -> ExampleSizes:
    """Reads the sizes of all examples, in worker processes that share the files.

    Raises:
      UserError: a record is damaged or empty.
    """
    parts = ordered_map(functools.partial(_sizes_of_file, options=options), files, workers)
    return ExampleSizes(*np.concatenate(list(parts), axis=1))


def _sizes_of_file(path: str, options: RecordOptions) -> np.ndarray:
    """Returns the lengths and the predictions of a file's examples, [2, N]."""
    records = RecordFile([path])
    sizes = np.zeros([2, len(records)], np.int32)
    for number, record in enumerate(records):
        try:
            features = tf.train.Example.FromString(record).features.feature
        except DecodeError as e:
            raise UserError(f"{path}: record {number} is not a tf.train.Example") from e
        mask = features["input_mask"].int64_list.value[::-1]
        if len(mask) != options.seq_length:
            raise UserError(
                f"{path}: record {number} has {len(mask)} values of input_mask, not the "
                f"{options.seq_length} of --max_seq_length; make the file again"
            )
        if 1 not in mask:
            raise UserError(f"{path}: record {number} has no token; make the file again")
        sizes[0, number] = len(mask) - mask.index(1)
        sizes[1, number] = np.count_nonzero(features["masked_lm_weights"].float_list.value)
    if options.masker:
        sizes[1] = options.masker.num_to_predict(sizes[0])
    return sizes


class RowShape(NamedTuple):
    """The size of a row: its tokens, and the greatest numbers of its masked tokens and examples."""

    seq_length: int
    max_predictions: int
    num_sequences: int


class PackedExamples(PackedOrder):
    """The order of a training in rows of several examples."""

    def __init__(self, sizes: ExampleSizes, seq_length: int, seed: int):
        super().__init__(sizes.lengths, seq_length, seed)
        # Whichever examples of these lengths the rows of an epoch get, their masked tokens fit.
        most = np.zeros(seq_length + 1, np.int64)
        np.maximum.at(most, sizes.lengths, sizes.predictions)
        max_predictions = int(most[self.kinds].sum(axis=1).max(initial=0))
        self.shape = RowShape(seq_length, max_predictions, self.num_sequences)

    def arrange(self, batches, batch_size, first, stride):
        spec = packed_spec(self.shape)

        @no_autograph
        def pack(index: tf.Tensor, features: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
            def pack_batch(index: np.ndarray, *values: np.ndarray) -> list[np.ndarray]:
                # The number is not part of the graph, which must be the same in a resumed run.
                rows = self.rows(batch_size, first + int(index) * stride)
                packed = pack_examples(dict(zip(features, values, strict=True)), rows, self.shape)
                return [packed[key] for key in spec]

            types = [tf.int32 if f.dtype.is_integer else f.dtype for f in spec.values()]
            outputs = tf.numpy_function(
                pack_batch, [index, *features.values()], types, stateful=False
            )
            for output, feature in zip(outputs, spec.values(), strict=True):
                output.set_shape([batch_size, *feature.shape])
            return dict(zip(spec, outputs, strict=True))

        packed = batches.enumerate().map(
            pack, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True
        )
        return packed.prefetch(tf.data.AUTOTUNE)


def packed_spec(shape: RowShape) -> dict[str, Any]:
    """Returns the features of a row of several examples, in the form of `feature_spec`."""
    lengths = {
        **dict.fromkeys((*SEQUENCE_KEYS, SEQUENCE_IDS, POSITION_IDS), shape.seq_length),
        **dict.fromkeys(_PREDICTION_KEYS, shape.max_predictions),
        **dict.fromkeys((_LABELS, FIRST_POSITIONS, EXAMPLE_WEIGHTS), shape.num_sequences),
    }
    types = dict.fromkeys(("masked_lm_weights", EXAMPLE_WEIGHTS), tf.float32)
    return {
        key: tf.io.FixedLenFeature([length], types.get(key, tf.int64))
        for key, length in lengths.items()
    }


def pack_examples(
    features: Mapping[str, np.ndarray], rows: np.ndarray, shape: RowShape
) -> dict[str, np.ndarray]:
    """Arranges examples one after another in rows of `packed_spec`, with 0 in unused slots.

    Args:
      features: the features of N examples, see `feature_spec`.
      rows: int [N], the row of each example, ascending from 0. Every row has an example.
    """
    spec, num_rows = packed_spec(shape), int(rows[-1]) + 1
    packed = {
        key: np.zeros([num_rows, *f.shape], np.int32 if f.dtype.is_integer else np.float32)
        for key, f in spec.items()
    }
    first_of_row = np.searchsorted(rows, rows)

    def begins(sizes: np.ndarray) -> np.ndarray:
        """Returns how much the earlier examples of each example's row take up."""
        before = np.cumsum(sizes) - sizes
        return before - before[first_of_row]

    mask = features["input_mask"]
    steps = np.arange(1, mask.shape[1] + 1)
    lengths = (mask * steps).max(axis=1)
    start, slot = begins(lengths), begins(np.ones_like(rows))
    example, column = tokens = np.nonzero(steps <= lengths[:, None])
    at = rows[example], start[example] + column
    for key in SEQUENCE_KEYS:
        packed[key][at] = features[key][tokens]
    # A token that must not be attended to is in no sequence.
    packed[SEQUENCE_IDS][at] = (slot[example] + 1) * mask[tokens]
    packed[POSITION_IDS][at] = column

    weights = features["masked_lm_weights"]
    counts = np.count_nonzero(weights, axis=1)
    example, _ = masked = np.nonzero(weights)
    number = np.arange(len(example)) - (np.cumsum(counts) - counts)[example]
    at = rows[example], begins(counts)[example] + number
    for key in _PREDICTION_KEYS:
        packed[key][at] = features[key][masked]
    packed["masked_lm_positions"][at] += start[example]

    packed[_LABELS][rows, slot] = features[_LABELS][:, 0]
    packed[FIRST_POSITIONS][rows, slot] = start
    packed[EXAMPLE_WEIGHTS][rows, slot] = 1.0
    return packed
