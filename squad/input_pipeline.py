"""Feature files to batches for the model."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from squad.records import RecordFile, feature_spec

# Batches are trimmed to a multiple of this length, so that few different shapes occur.
_TRIM_MULTIPLE = 16


def input_fn_builder(
    input_file: str | Sequence[str],
    seq_length: int,
    is_training: bool,
    drop_remainder: bool,
    use_tpu: bool,
    bsz: int,
    is_v2: bool,
    *,
    seed: int = 12345,
    start_batch: int = 0,
    trim_padding: bool = False,
    rank: int = 0,
    num_workers: int = 1,
) -> Callable[[dict], tf.data.Dataset]:
    """Returns an `input_fn` that reads feature files.

    In training the records come without end, every epoch in an order of its own over all of them:
    batch k is a function of the file, `bsz`, `seed` and k alone. In prediction they come once, in
    file order. Of n workers, worker r gets the batches r, r + n, ... and reads no other record;
    so does a resumed run from the batch on that it was at.

    Args:
      input_file: a TFRecord file of features, or several.
      seq_length: length of a feature.
      is_training: shuffle and repeat, with the answers; else one pass in file order.
      drop_remainder: outside training, leave out a last batch that is not full.
      use_tpu: must be false.
      bsz: features in a batch.
      is_v2: read `p_mask` too.
      seed: of the order.
      start_batch: number of the first batch of all workers together.
      trim_padding: cut batches to their longest feature; for models that do not depend on padding.
      rank, num_workers: which of how many workers this is.

    Returns:
      A function from `params` (not used) to a dataset of dictionaries: int32 [B, S] or [B].
    """
    if use_tpu:
        raise ValueError("input_fn_builder: this project does not run on TPU")
    files = [input_file] if isinstance(input_file, str) else list(input_file)
    spec = feature_spec(seq_length, is_training, with_p_mask=is_v2)

    def parse(records: tf.Tensor) -> dict[str, tf.Tensor]:
        features = tf.io.parse_example(records, spec)
        features = {key: tf.cast(value, tf.int32) for key, value in features.items()}
        return _trim(features, seq_length) if trim_padding else features

    def input_fn(params: dict) -> tf.data.Dataset:
        records = RecordFile(files)
        if is_training:
            numbers = functools.partial(shuffled_numbers, len(records), bsz, seed)
            end = np.iinfo(np.int64).max
        else:
            numbers = functools.partial(_numbers_in_order, len(records), bsz)
            end = len(records) // bsz if drop_remainder else -(-len(records) // bsz)

        def read(batch: np.ndarray) -> np.ndarray:
            return np.array(records.read(numbers(int(batch))), object)

        def read_op(batch: tf.Tensor) -> tf.Tensor:
            content = tf.numpy_function(read, [batch], tf.string, stateful=False)
            content.set_shape([bsz if is_training or drop_remainder else None])
            return content

        batches = tf.data.Dataset.range(start_batch + rank, end, num_workers).map(read_op)
        parsed = batches.map(parse, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        return parsed.prefetch(tf.data.AUTOTUNE)

    return input_fn


def shuffled_numbers(count: int, batch_size: int, seed: int, batch: int) -> np.ndarray:
    """The record numbers of a batch: the epochs' permutations one after the other."""
    position = batch * batch_size + np.arange(batch_size)
    epochs = position // count
    return np.array(
        [
            _permutation(count, seed, int(e))[p]
            for e, p in zip(epochs, position % count, strict=True)
        ]
    )


def _numbers_in_order(count: int, batch_size: int, batch: int) -> np.ndarray:
    return np.arange(batch * batch_size, min(count, (batch + 1) * batch_size))


@functools.lru_cache(maxsize=4)
def _permutation(count: int, seed: int, epoch: int) -> np.ndarray:
    return np.random.Generator(np.random.PCG64([seed, epoch])).permutation(count)


def _trim(features: dict[str, tf.Tensor], seq_length: int) -> dict[str, tf.Tensor]:
    """Cuts the padding that all features of a batch have at their end."""
    used = tf.reduce_max(features["input_mask"] * (1 + tf.range(seq_length)))
    length = tf.minimum(-(-used // _TRIM_MULTIPLE) * _TRIM_MULTIPLE, seq_length)
    return {
        key: value[:, :length] if value.shape.ndims == 2 else value
        for key, value in features.items()
    }
