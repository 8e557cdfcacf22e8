"""Records as protocol buffers read them."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from pretraining.masking import Masked
from pretraining.records import PairRecordMaker
from pretraining.sequences import Layout, SequenceBatch


@pytest.fixture(scope="module")
def rows():
    """Three rows with ids of one to three bytes, with none, some and all places used."""
    rng = np.random.default_rng(1)
    layout = Layout(np.array([1, 50, 130]), np.array([1, 70, 67]), 200)
    ids = rng.integers(0, 30000, (3, 200)).astype(np.int32) * layout.is_real
    ids[1, :6] = 127, 128, 16383, 16384, 0, 29999
    counts = np.array([0, 5, 8])
    used = np.arange(8) < counts[:, None]
    positions = np.array([[0] * 8, [1, 2, 3, 126, 127] + [0] * 3, range(128, 136)], np.int32)
    labels = rng.integers(0, 30000, (3, 8)).astype(np.int32) * used
    batch = SequenceBatch(ids, layout, np.array([0, 1, 1], np.int32))
    return batch, Masked(ids, positions, labels, counts), rng.random((3, 200)) < 0.5


def test_records_have_the_reference_keys_and_types(rows):
    batch, masked, begins_word = rows
    records = list(PairRecordMaker(200, 8, 30000).records(batch, masked, begins_word))
    layout = batch.layout
    for row, record in enumerate(records):
        feature = tf.train.Example.FromString(record).features.feature
        integers = {
            "input_ids": batch.ids[row],
            "input_mask": layout.is_real[row],
            "segment_ids": layout.in_second[row],
            "token_boundary": (begins_word[row] | ~layout.in_text[row]) & layout.is_real[row],
            "masked_lm_positions": masked.positions[row],
            "masked_lm_ids": masked.labels[row],
            "next_sentence_labels": [batch.labels[row]],
        }
        assert set(feature) == {*integers, "masked_lm_weights"}
        for key, values in integers.items():
            assert list(feature[key].int64_list.value) == list(map(int, values)), key
        weights = [1.0] * masked.counts[row] + [0.0] * (8 - masked.counts[row])
        assert list(feature["masked_lm_weights"].float_list.value) == weights
