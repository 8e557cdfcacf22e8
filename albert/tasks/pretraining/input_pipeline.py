"""Record files: selecting them, checking them, and drawing masks for their records."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from albert.core.errors import UserError
from albert.data.cached_file import is_intact
from albert.data.records import no_autograph, record_error
from albert.data.sequences import SEQUENCE_KEYS
from albert.distributed import collectives
from albert.tasks.pretraining.masking import Masker
from albert.tasks.pretraining.pairs import Layout
from albert.tasks.pretraining.records import feature_spec

# Before a run, the first 100 records of a file are checked, and every 100th of the others.
_LOOKED_AT = 100


class RecordOptions(NamedTuple):
    """The required properties of records.

    `masker` draws masks for records without masks; if it is None, records have their own masks.
    `vocab_size` is the exclusive upper limit of ids.
    """

    seq_length: int
    max_predictions: int
    vocab_size: int
    masker: Masker | None = None
    mask_seed: int = 0


def check_files(paths: Sequence[str], options: RecordOptions) -> None:
    """Checks record files before a long run; raises a `UserError` if one is not valid.

    Every worker checks the first records. One worker per host then reads each file to the end. If
    the file has a header, it compares the hash. Otherwise it checks the records' checksums, and the
    content of every 100th record.
    """
    for path in paths:
        _check_records(path, options, _LOOKED_AT)
        if collectives.local_rank() > 0:
            continue
        intact = is_intact(path)
        if intact is None:
            _check_records(path, options, None)
        elif not intact:
            raise UserError(
                f"{path} does not match its header {path}.json: it was damaged or replaced; make "
                "it again, or remove the header if it is the right file"
            )


def _check_records(path: str, options: RecordOptions, count: int | None) -> None:
    """Checks samples of the first `count` records, or of all records if `count` is None."""
    number, has_masks = -1, False
    try:
        for number, record in enumerate(itertools.islice(tf.io.tf_record_iterator(path), count)):
            if number < _LOOKED_AT or number % _LOOKED_AT == 0:
                has_masks |= _check_record(path, number, record, options)
    except (tf.errors.OpError, OSError) as e:
        raise UserError(f"{path} is not a file of records, or it is damaged") from e
    if number < 0:
        raise UserError(f"{path} has no records")
    if not (has_masks or options.masker):
        raise UserError(
            f"{path} has no masks, so there is nothing to predict; draw them with "
            "--masked_lm_budget, or make the file with `albert pretraining-data "
            "--masked_lm_prob=0.15`"
        )


def _check_record(path: str, number: int, record: bytes, options: RecordOptions) -> bool:
    """Checks a record, and returns whether it has masks."""
    spec = feature_spec(options.seq_length, options.max_predictions, with_masks=not options.masker)
    bits = ("input_mask", "segment_ids", "token_boundary", "next_sentence_labels")
    limits = {
        **dict.fromkeys(bits, 2),
        "input_ids": options.vocab_size,
        "masked_lm_ids": options.vocab_size,
        "masked_lm_positions": options.seq_length,
        "masked_lm_weights": math.inf,
    }
    wrong = record_error(record, spec, limits)
    if wrong:
        raise UserError(
            f"{path}: record {number} {wrong}; --max_seq_length is {options.seq_length}, "
            f"--max_predictions_per_seq is {options.max_predictions}, --albert_config_file has "
            f"vocab_size {options.vocab_size}; pass the values that the file was made with, or "
            "make it again (also if it was made with another tokenizer)"
        )
    weights = tf.train.Example.FromString(record).features.feature["masked_lm_weights"]
    has_masks = any(weights.float_list.value)
    if options.masker and has_masks:
        raise UserError(
            f"{path} has masks, but --masked_lm_budget draws its own; make the file with "
            "`albert pretraining-data --masked_lm_prob=0`"
        )
    return has_masks


def drawing_masks(options: RecordOptions) -> Callable[[tf.data.Dataset, int, int], tf.data.Dataset]:
    """Returns a function that draws masks for batches without masks; see `data.batches.Data`.

    The masks depend only on `mask_seed` and a batch's number.
    """

    def draw(batches: tf.data.Dataset, first: int, stride: int) -> tf.data.Dataset:
        @no_autograph
        def mask(index: tf.Tensor, features: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
            names = (*SEQUENCE_KEYS, "token_boundary")
            outputs = tf.numpy_function(
                # The number is not part of the graph, which must be the same in a resumed run.
                lambda index, *arrays: _drawn_masks(options, first + int(index) * stride, *arrays),
                [index, *(features[name] for name in names)],
                [tf.int32, tf.int32, tf.int32, tf.float32],
                stateful=False,
            )
            keys = ("input_ids", "masked_lm_positions", "masked_lm_ids", "masked_lm_weights")
            for key, output in zip(keys, outputs, strict=True):
                length = options.seq_length if key == "input_ids" else options.max_predictions
                output.set_shape([features["input_ids"].shape[0], length])
                features[key] = output
            return features

        masked = batches.enumerate().map(
            mask, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True
        )
        return masked.prefetch(tf.data.AUTOTUNE)

    return draw


def _drawn_masks(
    options: RecordOptions,
    batch: int,
    ids: np.ndarray,
    input_mask: np.ndarray,
    segment_ids: np.ndarray,
    token_boundary: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Returns the masked ids, positions, labels and weights of a batch."""
    in_second = segment_ids.sum(axis=1)
    layout = Layout(input_mask.sum(axis=1) - in_second - 2, in_second - 1, options.seq_length)
    rng = np.random.Generator(np.random.PCG64([options.mask_seed, batch]))
    assert options.masker is not None, "masks are drawn only for files without masks"
    masked = options.masker.mask(ids, layout, token_boundary.astype(bool), rng)
    weights = np.arange(options.max_predictions) < masked.counts[:, None]
    return masked.ids, masked.positions, masked.labels, weights.astype(np.float32)
