"""Features, of files or in memory, to batches for the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from glue.features import SEQUENCE_KEYS, InputFeatures
from runtime.data.records import parsed_batches


def input_fn_builder(
    features: Sequence[InputFeatures], seq_length: int, is_training: bool, drop_remainder: bool
) -> Callable[[dict], tf.data.Dataset]:
    """Returns an `input_fn` of features that are in memory.

    In training they come without end, every epoch in another order, else once and in order.

    Args:
      features: the features.
      seq_length: their length.
      is_training: shuffle and repeat.
      drop_remainder: leave out a last batch that is not full.

    Returns:
      A function from `params`, which has "batch_size", to a dataset of dictionaries: int32 [B, S]
      or [B]; `label_ids` are float32 where labels are numbers.
    """
    shape = [len(features), seq_length]
    columns = {
        key: np.array([getattr(f, key) for f in features], np.int32).reshape(shape)
        for key in SEQUENCE_KEYS
    }
    labels = [f.label_id for f in features]
    kind = np.float32 if any(isinstance(label, float) for label in labels) else np.int32
    columns["label_ids"] = np.array(labels, kind)

    def input_fn(params: dict) -> tf.data.Dataset:
        data = tf.data.Dataset.from_tensor_slices(columns)
        if is_training:
            data = data.shuffle(len(features)).repeat()
        return data.batch(params["batch_size"], drop_remainder)

    return input_fn


def feature_spec(seq_length: int, is_regression: bool) -> dict:
    """What `tf.io.parse_example` needs to read a record of features."""
    return {
        **{key: tf.io.FixedLenFeature([seq_length], tf.int64) for key in SEQUENCE_KEYS},
        "label_ids": tf.io.FixedLenFeature([], tf.float32 if is_regression else tf.int64),
        "is_real_example": tf.io.FixedLenFeature([], tf.int64),
    }


def file_based_input_fn_builder(
    input_file: str | Sequence[str],
    seq_length: int,
    is_training: bool,
    drop_remainder: bool,
    task_name: str,
    use_tpu: bool,
    bsz: int,
    multiple: int = 1,
    *,
    is_regression: bool | None = None,
    seed: int = 12345,
    start_batch: int = 0,
    pad_remainder: bool = False,
    trim_padding: bool = False,
    rank: int = 0,
    num_workers: int = 1,
) -> Callable[[dict], tf.data.Dataset]:
    """Returns an `input_fn` that reads feature files.

    In training the records come shuffled and without end, else once and in file order; see
    `runtime.data.records.parsed_batches`.

    Args:
      input_file: a TFRecord file of features, or several.
      seq_length: length of a feature.
      is_training: shuffle and repeat.
      drop_remainder: outside training, leave out a last batch that is not full.
      task_name: "sts-b" has labels that are numbers.
      use_tpu: must be false.
      bsz: features in a batch.
      multiple: sequences in a feature, one after the other.
      is_regression: whether labels are numbers; None leaves it to `task_name`.
      seed: of the order.
      start_batch: number of the first batch of all workers together.
      pad_remainder: outside training, fill it up with copies of the last feature.
      trim_padding: cut batches to their longest feature.
      rank, num_workers: which of how many workers this is.

    Returns:
      A function from `params` (not used) to a dataset of dictionaries: int32 [B, S] or [B];
      `label_ids` are float32 in regression.
    """
    if use_tpu:
        raise ValueError("file_based_input_fn_builder: this project does not run on TPU")
    files = [input_file] if isinstance(input_file, str) else list(input_file)
    is_regression = task_name == "sts-b" if is_regression is None else is_regression
    spec = feature_spec(seq_length * multiple, is_regression)

    def input_fn(params: dict) -> tf.data.Dataset:
        return parsed_batches(
            files,
            spec,
            bsz,
            shuffle_seed=seed if is_training else None,
            start_batch=start_batch,
            drop_remainder=drop_remainder,
            pad_remainder=pad_remainder,
            trim_padding=trim_padding,
            rank=rank,
            num_workers=num_workers,
        )

    return input_fn
