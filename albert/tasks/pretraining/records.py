"""Records for pretraining: TFRecords of `tf.train.Example` with the reference's keys."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator

import numpy as np
import tensorflow.compat.v1 as tf

from albert.data import tf_example
from albert.data.sequences import SEQUENCE_KEYS
from albert.tasks.pretraining.masking import MaskedRows
from albert.tasks.pretraining.pairs import SequenceBatch


class PairRecordMaker:
    """A converter of rows to records."""

    def __init__(self, seq_length: int, max_predictions: int, vocab_size: int):
        self.seq_length = seq_length
        self._max_predictions = max_predictions
        self._table = tf_example.varint_table(max(vocab_size, seq_length))

    def records(
        self, batch: SequenceBatch, masked: MaskedRows, begins_word: np.ndarray
    ) -> Iterator[bytes]:
        """Yields the record of each row of a batch; `masked` has the same rows after masking.

        `begins_word`, bool [N, S], says whether a token begins a word.
        """
        layout = batch.layout
        boundary = (begins_word | ~layout.in_text) & layout.is_real
        # Numbers below 128 are their own varints.
        columns = {
            "input_ids": _varints_of_rows(self._table, masked.ids),
            "input_mask": map(bytes, layout.is_real),
            "segment_ids": map(bytes, layout.in_second),
            "token_boundary": map(bytes, boundary),
            "masked_lm_positions": _varints_of_rows(self._table, masked.positions),
            "masked_lm_ids": _varints_of_rows(self._table, masked.labels),
        }
        others = zip(masked.counts.tolist(), batch.labels.tolist(), strict=True)
        for (count, label), *values in zip(others, *columns.values(), strict=True):
            parts = [_weights_entry(count, self._max_predictions), _label_entry(label)]
            for key, value in zip(columns, values, strict=True):
                parts += (_before(key, len(value)), value)
            yield tf_example.example(b"".join(parts))


def _varints_of_rows(table: tf_example.VarintTable, rows: np.ndarray) -> Iterator[bytes]:
    """Yields the varints of each row of integers [N, M]."""
    content, lengths = table.encode(rows)
    ends = lengths.sum(axis=1).cumsum().tolist()
    for start, end in itertools.pairwise([0, *ends]):
        yield content[start:end]


@functools.cache
def _before(key: str, length: int) -> bytes:
    """Returns the bytes before the values in a feature's entry; the values have `length` bytes."""
    return tf_example.entry(key, bytes(length))[:-length]


@functools.cache
def _weights_entry(count: int, max_predictions: int) -> bytes:
    """Returns the entry of weights: 1.0 for predictions and 0.0 for padding."""
    weights = tf.train.FloatList(value=[1.0] * count + [0.0] * (max_predictions - count))
    feature = {"masked_lm_weights": tf.train.Feature(float_list=weights)}
    return tf.train.Features(feature=feature).SerializeToString()


@functools.cache
def _label_entry(label: int) -> bytes:
    return tf_example.entry("next_sentence_labels", tf_example.varint(label))


def feature_spec(seq_length: int, max_predictions: int, with_masks: bool) -> dict:
    """Returns the specification with which `tf.io.parse_example` reads a record.

    With `with_masks`, it has the masks; otherwise, the starts of words, from which training draws
    masks.
    """
    keys = list(SEQUENCE_KEYS)
    if not with_masks:
        keys.append("token_boundary")
    spec = {key: tf.io.FixedLenFeature([seq_length], tf.int64) for key in keys}
    spec["next_sentence_labels"] = tf.io.FixedLenFeature([1], tf.int64)
    if with_masks:
        for key in ("masked_lm_positions", "masked_lm_ids"):
            spec[key] = tf.io.FixedLenFeature([max_predictions], tf.int64)
        spec["masked_lm_weights"] = tf.io.FixedLenFeature([max_predictions], tf.float32)
    return spec
