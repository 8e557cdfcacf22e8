"""Record files to batches for the model."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from pretraining.masking import Masker
from pretraining.records import feature_spec
from pretraining.sequences import Layout
from pretraining.text import matching_files
from runtime import device
from runtime.errors import UserError
from runtime.records import parsed_batches

# Records of each file that are looked at before a run.
_CHECKED_RECORDS = 100


class RecordOptions(NamedTuple):
    """What records are to be like.

    Attributes:
      seq_length: length of a sequence.
      num_places: places for predictions.
      vocab_size: more than any id.
      masker: draws masks for records that have none; None to read the records' own.
      mask_seed: of those masks.
    """

    seq_length: int
    num_places: int
    vocab_size: int
    masker: Masker | None = None
    mask_seed: int = 0


def record_files(patterns: str, flag: str) -> list[str]:
    """The files that names or globs stand for, without the headers that globs match as well.

    Raises:
      UserError: a name or glob matches no file.
    """
    found = matching_files(patterns, flag)
    headers = {path + ".json" for path in found}
    return [path for path in found if path not in headers]


def check_files(paths: Sequence[str], options: RecordOptions) -> None:
    """Looks at the first records of files.

    Raises:
      UserError: a file is none of records, or they are not as they should be.
    """
    for path in paths:
        try:
            records = list(itertools.islice(tf.io.tf_record_iterator(path), _CHECKED_RECORDS))
        except (tf.errors.OpError, OSError) as e:
            raise UserError(f"{path} is no file of records, or it is damaged") from e
        if not records:
            raise UserError(f"{path} has no record")
        for record in records:
            _check_record(path, record, options)


def _check_record(path: str, record: bytes, options: RecordOptions) -> None:
    try:
        features = tf.train.Example.FromString(record).features.feature
    except ValueError as e:
        raise UserError(f"{path} has a record that is no tf.train.Example") from e
    lengths = {
        "--max_seq_length": ("input_ids", "input_mask", "segment_ids"),
        "--max_predictions_per_seq": ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights"),
    }
    if options.masker:
        del lengths["--max_predictions_per_seq"]
        lengths["--max_seq_length"] += ("token_boundary",)
    wanted = {
        "--max_seq_length": options.seq_length,
        "--max_predictions_per_seq": options.num_places,
    }
    for flag, keys in lengths.items():
        for key in keys:
            feature = features[key]
            length = len(feature.int64_list.value or feature.float_list.value)
            if length != wanted[flag]:
                raise UserError(
                    f"{path}: {key} of a record has {length} values, but {flag} is "
                    f"{wanted[flag]}; it must be the one that the file was made with"
                )
    if max(features["input_ids"].int64_list.value) >= options.vocab_size:
        raise UserError(
            f"{path}: an id is not less than the vocab_size {options.vocab_size} of "
            "--albert_config_file; was it made with another tokenizer?"
        )
    if options.masker and any(features["masked_lm_weights"].float_list.value):
        raise UserError(
            f"{path} has masks, but --masked_lm_budget draws its own; make the file with "
            "create_pretraining_data.py --masked_lm_prob=0"
        )


@contextlib.contextmanager
def reading(paths: Sequence[str]) -> Iterator[None]:
    """Turns the error of a record that cannot be read into a `UserError` that names its files."""
    try:
        yield
    except tf.errors.InvalidArgumentError as e:
        if "ParseExample" not in e.message:
            raise
        raise UserError(
            f"a record of {', '.join(paths)} is damaged or has other lengths than the first ones; "
            "make the file anew"
        ) from e


def input_fn_builder(
    input_files: Sequence[str],
    options: RecordOptions,
    batch_size: int,
    shuffle_seed: int | None,
    *,
    start_batch: int = 0,
    max_batches: int | None = None,
    rank: int = 0,
    num_workers: int = 1,
) -> Callable[[], tf.data.Dataset]:
    """Returns an `input_fn` that reads record files.

    The order is that of `runtime.records.parsed_batches`. Masks that are drawn are a function of
    `mask_seed` and a batch's number.

    Args:
      input_files: the files.
      options: what records are like.
      batch_size: records in a batch.
      shuffle_seed: of the order; None for one pass in file order.
      start_batch: number of the first batch of all workers together.
      max_batches: in file order, batches of all workers together at most.
      rank, num_workers: which of how many workers this is.

    Returns:
      A function to a dataset of dictionaries: int32 [B, S] of `input_ids`, `input_mask` and
      `segment_ids`, int32 [B, P] of `masked_lm_positions` and `masked_lm_ids`, float32 [B, P] of
      `masked_lm_weights`, int32 [B, 1] of `next_sentence_labels`.
    """
    spec = feature_spec(options.seq_length, options.num_places, with_masks=not options.masker)

    def mask(index: tf.Tensor, features: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        names = ("input_ids", "input_mask", "segment_ids", "token_boundary")
        inputs = [start_batch + rank + index * num_workers, *(features[name] for name in names)]
        outputs = tf.numpy_function(
            lambda *arrays: _drawn_masks(options, *arrays),
            inputs,
            [tf.int32, tf.int32, tf.int32, tf.float32],
            stateful=False,
        )
        keys = ("input_ids", "masked_lm_positions", "masked_lm_ids", "masked_lm_weights")
        for key, output in zip(keys, outputs, strict=True):
            length = options.seq_length if key == "input_ids" else options.num_places
            output.set_shape([features["input_ids"].shape[0], length])
            features[key] = output
        return features

    def input_fn() -> tf.data.Dataset:
        batches = parsed_batches(
            input_files,
            spec,
            batch_size,
            shuffle_seed=shuffle_seed,
            start_batch=start_batch,
            rank=rank,
            num_workers=num_workers,
            # On the HPU no shape may depend on the data.
            pad_remainder=shuffle_seed is None and device.is_hpu(),
        )
        if max_batches is not None:
            batches = batches.take(max(0, -(-(max_batches - rank) // num_workers)))
        if not options.masker:
            return batches
        masked = batches.enumerate().map(
            mask, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True
        )
        return masked.prefetch(tf.data.AUTOTUNE)

    return input_fn


def _drawn_masks(
    options: RecordOptions,
    batch: np.ndarray,
    ids: np.ndarray,
    input_mask: np.ndarray,
    segment_ids: np.ndarray,
    token_boundary: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """New ids, positions, labels and weights of a batch, see `input_fn_builder`."""
    in_second = segment_ids.sum(axis=1)
    layout = Layout(input_mask.sum(axis=1) - in_second - 2, in_second - 1, options.seq_length)
    rng = np.random.Generator(np.random.PCG64([options.mask_seed, int(batch)]))
    masked = options.masker.mask(ids, layout, token_boundary.astype(bool), rng)
    weights = np.arange(options.num_places) < masked.counts[:, None]
    return masked.ids, masked.positions, masked.labels, weights.astype(np.float32)
