"""Sequences with their special tokens, and their records."""

import tensorflow.compat.v1 as tf

from runtime.data import tf_example
from runtime.data.sequences import SEQUENCE_KEYS, TokenSequence, make_sequence, sequence_entries


def test_a_pair_and_a_single_text():
    assert make_sequence([7, 8], [9], 2, 3) == ([2, 7, 8, 3, 9, 3], 4)
    assert make_sequence([7, 8], [], 2, 3) == ([2, 7, 8, 3], 4)
    assert make_sequence([], [], 2, 3) == ([2, 3], 2)


def test_several_sequences_are_one_record():
    sequences = [make_sequence([300], [29999], 2, 3), TokenSequence([], 0), TokenSequence([5], 0)]
    record = tf_example.example(sequence_entries(sequences, 6))
    features = tf.train.Example.FromString(record).features.feature
    assert {key: list(features[key].int64_list.value) for key in features} == dict(
        zip(
            SEQUENCE_KEYS,
            [
                [2, 300, 3, 29999, 3, 0, *[0] * 6, 5, 0, 0, 0, 0, 0],
                [1, 1, 1, 1, 1, 0, *[0] * 6, 1, 0, 0, 0, 0, 0],
                [0, 0, 0, 1, 1, 0, *[0] * 6, 1, 0, 0, 0, 0, 0],
            ],
            strict=True,
        )
    )
