"""Rows of ids, compared with lists built token by token, and their records."""

from __future__ import annotations

import numpy as np
import tensorflow.compat.v1 as tf

from albert.tasks.pretraining.masking import MaskedRows
from albert.tasks.pretraining.pairs import Layout, SegmentPair, SequenceBatch, make_sequences
from albert.tasks.pretraining.records import PairRecordMaker
from albert.tasks.pretraining.text import Documents

SEQ_LENGTH = 20


def random_pairs(count, num_tokens, seed):
    rng = np.random.default_rng(seed)
    pairs = []
    for _ in range(count):
        length_a, length_b = rng.integers(1, 10), rng.integers(1, 8)
        a, b = rng.integers(0, num_tokens - 10, 2)
        pairs.append(SegmentPair(int(a), int(a + length_a), int(b), int(b + length_b), int(a > b)))
    return [SegmentPair(0, 1, num_tokens - 16, num_tokens, 0), SegmentPair(3, 19, 0, 1, 1), *pairs]


def test_rows_have_special_tokens_and_padding(encoder):
    ids = np.random.default_rng(1).integers(5, encoder.tokenizer.size, 200).astype(np.int32)
    pairs = random_pairs(100, len(ids), seed=2)
    batch = make_sequences(pairs, Documents(ids, [], []), encoder, SEQ_LENGTH)
    layout = batch.layout
    for row, pair in enumerate(pairs):
        a, b = ids[pair.a_start : pair.a_end].tolist(), ids[pair.b_start : pair.b_end].tolist()
        tokens = [encoder.cls_id, *a, encoder.sep_id, *b, encoder.sep_id]
        padding = [0] * (SEQ_LENGTH - len(tokens))
        assert batch.ids[row].tolist() == tokens + padding
        assert batch.labels[row] == pair.label
        assert layout.lengths[row] == len(tokens)
        assert layout.is_real[row].tolist() == [True] * len(tokens) + padding
        second = [False] * (len(a) + 2) + [True] * (len(b) + 1)
        assert layout.in_second[row].tolist() == second + padding
        text = [False, *[True] * len(a), False, *[True] * len(b), False]
        assert layout.in_text[row].tolist() == text + padding


def test_words_begin_at_segments_and_marked_tokens(encoder):
    ids = np.arange(5, 105, dtype=np.int32)
    batch = make_sequences(random_pairs(20, 100, 3), Documents(ids, [], []), encoder, SEQ_LENGTH)
    begins = batch.ids % 3 == 0
    starts = batch.layout.word_starts(begins)
    for row, layout_row in enumerate(batch.layout.in_text):
        for column in np.flatnonzero(layout_row):
            first_of_segment = not layout_row[column - 1]
            assert starts[row, column] == (first_of_segment or begins[row, column])
    assert not (starts & ~batch.layout.in_text).any()


def test_records_have_the_reference_keys_and_types():
    """Three rows with ids of one to three bytes, with no, some and all positions masked."""
    rng = np.random.default_rng(1)
    layout = Layout(np.array([1, 50, 130]), np.array([1, 70, 67]), 200)
    ids = rng.integers(0, 30000, (3, 200)).astype(np.int32) * layout.is_real
    ids[1, :6] = 127, 128, 16383, 16384, 0, 29999
    counts = np.array([0, 5, 8])
    used = np.arange(8) < counts[:, None]
    positions = np.array([[0] * 8, [1, 2, 3, 126, 127] + [0] * 3, range(128, 136)], np.int32)
    labels = rng.integers(0, 30000, (3, 8)).astype(np.int32) * used
    batch = SequenceBatch(ids, layout, np.array([0, 1, 1], np.int32))
    masked, begins_word = MaskedRows(ids, positions, labels, counts), rng.random((3, 200)) < 0.5
    records = list(PairRecordMaker(200, 8, 30000).records(batch, masked, begins_word))
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
