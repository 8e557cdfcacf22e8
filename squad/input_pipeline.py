"""Feature files to batches for the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow.compat.v1 as tf

from runtime.data.records import parsed_batches
from squad.records import feature_spec


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
    pad_remainder: bool = False,
    trim_padding: bool = False,
    rank: int = 0,
    num_workers: int = 1,
) -> Callable[[dict], tf.data.Dataset]:
    """Returns an `input_fn` that reads feature files.

    In training the records come shuffled and without end, in prediction once and in file order;
    see `runtime.data.records.parsed_batches`.

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
      pad_remainder: outside training, fill it up with copies of the last feature.
      trim_padding: cut batches to their longest feature; for models that do not depend on padding.
      rank, num_workers: which of how many workers this is.

    Returns:
      A function from `params` (not used) to a dataset of dictionaries: int32 [B, S] or [B].
    """
    if use_tpu:
        raise ValueError("input_fn_builder: this project does not run on TPU")
    files = [input_file] if isinstance(input_file, str) else list(input_file)
    spec = feature_spec(seq_length, is_training, with_p_mask=is_v2)

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
