"""Record files: checking them, drawing masks, and packing several examples into a row."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from albert.core.errors import UserError
from albert.distributed import collectives
from albert.records.batches import map_arrays
from albert.records.cached_file import is_intact
from albert.records.order import PackedOrder
from albert.records.process_pool import ordered_map
from albert.records.records import RecordFile, record_error
from albert.records.sequences import SEQUENCE_KEYS
from albert.tasks.pretraining.head import (
    EXAMPLE_WEIGHTS,
    FIRST_POSITIONS,
    POSITION_IDS,
    SEQUENCE_IDS,
)
from albert.tasks.pretraining.masking import Masker
from albert.tasks.pretraining.pairs import Layout

# Before a run, the first 100 records of a file are checked, and every 100th of the others.
_LOOKED_AT = 100
_PREDICTION_KEYS = ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights")
_LABELS = "next_sentence_labels"


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

    def spec(self, with_masks: bool) -> dict[str, Any]:
        """Returns the specification with which `tf.io.parse_example` reads a record.

        With `with_masks`, it has the masks; otherwise, the starts of words, from which training
        draws masks.
        """
        keys = SEQUENCE_KEYS if with_masks else (*SEQUENCE_KEYS, "token_boundary")
        lengths = dict.fromkeys(keys, self.seq_length) | {_LABELS: 1}
        if with_masks:
            lengths |= dict.fromkeys(_PREDICTION_KEYS, self.max_predictions)
        return _spec_of(lengths)


def _spec_of(lengths: Mapping[str, int]) -> dict[str, Any]:
    floats = ("masked_lm_weights", EXAMPLE_WEIGHTS)
    return {
        key: tf.io.FixedLenFeature([length], tf.float32 if key in floats else tf.int64)
        for key, length in lengths.items()
    }


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
    spec = options.spec(with_masks=not options.masker)
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
    """Returns a function that draws masks for batches without masks; see `records.batches.Data`.

    The masks depend only on `mask_seed` and a batch's number.
    """
    drawn = options.spec(with_masks=True)
    kept = ("input_mask", "segment_ids", "next_sentence_labels")
    spec = {name: drawn[name] for name in drawn if name not in kept}
    draw = functools.partial(_drawn_masks, options)
    return lambda batches, first, stride: map_arrays(batches, draw, spec, first, stride, kept=kept)


def _drawn_masks(
    options: RecordOptions, batch: int, features: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    in_second = features["segment_ids"].sum(axis=1)
    in_first = features["input_mask"].sum(axis=1) - in_second
    layout = Layout(in_first - 2, in_second - 1, options.seq_length)
    rng = np.random.Generator(np.random.PCG64([options.mask_seed, batch]))
    assert options.masker is not None, "masks are drawn only for files without masks"
    begins_word = features["token_boundary"].astype(bool)
    masked = options.masker.mask(features["input_ids"], layout, begins_word, rng)
    weights = np.arange(options.max_predictions) < masked.counts[:, None]
    return {
        "input_ids": masked.ids,
        "masked_lm_positions": masked.positions,
        "masked_lm_ids": masked.labels,
        "masked_lm_weights": weights.astype(np.float32),
    }


def read_sizes(files: Sequence[str], options: RecordOptions, workers: int) -> np.ndarray:
    """Returns the numbers of tokens, and of masked tokens, of all N examples, int [2, N].

    Worker processes share the files, which were checked. Raises a `UserError` if a record has no
    token or another length.
    """
    parts = ordered_map(functools.partial(_sizes_of_file, options=options), files, workers)
    return np.concatenate(list(parts), axis=1)


def _sizes_of_file(path: str, options: RecordOptions) -> np.ndarray:
    """Returns the lengths and the predictions of a file's examples, [2, N]."""
    records = RecordFile([path])
    sizes = np.zeros([2, len(records)], np.int32)
    for number, record in enumerate(records):
        features = tf.train.Example.FromString(record).features.feature
        mask = features["input_mask"].int64_list.value[::-1]
        if len(mask) != options.seq_length or 1 not in mask:
            what = f"has no token, or another length than {options.seq_length}"
            raise UserError(f"{path}: record {number} {what}; make the file again")
        sizes[0, number] = len(mask) - mask.index(1)
        sizes[1, number] = np.count_nonzero(features["masked_lm_weights"].float_list.value)
    if options.masker:
        sizes[1] = options.masker.num_to_predict(sizes[0])
    return sizes


class PackedExamples(PackedOrder):
    """The order of a training in rows of several examples, with the features of a row (`spec`)."""

    def __init__(self, sizes: np.ndarray, seq_length: int, seed: int):
        lengths, predictions = sizes
        super().__init__(lengths, seq_length, seed)
        # Whichever examples of these lengths the rows of an epoch get, their masked tokens fit.
        most = np.zeros(seq_length + 1, np.int64)
        np.maximum.at(most, lengths, predictions)
        max_predictions = int(most[self.kinds].sum(axis=1).max(initial=0))
        self.spec = packed_spec(seq_length, max_predictions, self.num_sequences)

    def arrange(self, batches, batch_size, first, stride):
        def pack(batch: int, features: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            return pack_examples(features, self.rows(batch_size, batch), self.spec)

        return map_arrays(batches, pack, self.spec, first, stride, batch_size)


def packed_spec(seq_length: int, max_predictions: int, num_sequences: int) -> dict[str, Any]:
    """Returns the features of a row of several examples, in the form of `RecordOptions.spec`.

    The last two arguments are the greatest numbers of a row's masked tokens and examples.
    """
    return _spec_of(
        {
            **dict.fromkeys((*SEQUENCE_KEYS, SEQUENCE_IDS, POSITION_IDS), seq_length),
            **dict.fromkeys(_PREDICTION_KEYS, max_predictions),
            **dict.fromkeys((_LABELS, FIRST_POSITIONS, EXAMPLE_WEIGHTS), num_sequences),
        }
    )


def pack_examples(
    features: Mapping[str, np.ndarray], rows: np.ndarray, spec: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """Arranges examples one after another in rows of `packed_spec`, with 0 in unused slots.

    Args:
      features: the features of N examples, see `RecordOptions.spec`.
      rows: int [N], the row of each example, ascending from 0. Every row has an example.
    """
    num_rows = int(rows[-1]) + 1
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
