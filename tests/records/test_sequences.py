"""Sequences and their windows, and examples written byte by byte and read by TensorFlow."""

import hypothesis
import numpy as np
import tensorflow.compat.v1 as tf
from hypothesis import given
from hypothesis import strategies as st

from albert.records import tf_example
from albert.records.sequences import (
    SEQUENCE_KEYS,
    TokenSequence,
    make_sequence,
    positions_in_windows,
    sequence_entries,
)

NUMBERS = st.lists(st.integers(0, 2**63 - 1), max_size=40)


@hypothesis.settings(max_examples=25)
@hypothesis.given(st.dictionaries(st.text(max_size=300), NUMBERS, max_size=5))
def test_tensorflow_reads_the_written_examples(fields):
    written = tf_example.serialize(fields)
    lists = {key: tf.train.Int64List(value=numbers) for key, numbers in fields.items()}
    features = {key: tf.train.Feature(int64_list=numbers) for key, numbers in lists.items()}
    example = tf.train.Example(features=tf.train.Features(feature=features))
    assert tf.train.Example.FromString(written) == example
    # The order of several is free.
    if len(fields) == 1 and all(fields.values()):
        assert written == example.SerializeToString()


def test_a_table_has_the_varints_of_all_numbers():
    numbers = [0, 1, 127, 128, 16383, 16384]
    content, lengths = tf_example.varint_table(16385).encode(np.array(numbers))
    assert content == tf_example.varints(numbers) and lengths.tolist() == [1, 1, 1, 2, 2, 3]


def test_several_sequences_are_one_record():
    sequences = [make_sequence([300], [29999], 2, 3), TokenSequence([], 0), TokenSequence([5], 0)]
    record = tf_example.example(sequence_entries(sequences, 6))
    features = tf.train.Example.FromString(record).features.feature
    assert features.keys() == {*SEQUENCE_KEYS}
    assert [list(features[key].int64_list.value) for key in SEQUENCE_KEYS] == [
        [2, 300, 3, 29999, 3, 0, *[0] * 6, 5, 0, 0, 0, 0, 0],
        [1, 1, 1, 1, 1, 0, *[0] * 6, 1, 0, 0, 0, 0, 0],
        [0, 0, 0, 1, 1, 0, *[0] * 6, 1, 0, 0, 0, 0, 0],
    ]


@given(st.integers(0, 60), st.integers(1, 20), st.data())
def test_each_place_is_in_the_window_with_the_most_context(length, room, data):
    numbers = st.integers(0, max(length - 1, 0))
    positions = sorted(data.draw(st.sets(numbers, max_size=length if length else 0)))
    windows = list(positions_in_windows(length, room, np.array(positions, int)))
    assert [position for _, own in windows for position in own] == positions, "once, and in order"
    starts = [start for start, _ in windows]
    stride = max(room // 2, 1)
    assert starts == [*range(0, max(length - room + stride, 1), stride)][: len(starts)]
    assert (not starts) == (length == 0) and all(start < length for start in starts)
    assert not starts or starts[-1] + room >= length > (starts[-2] + room if starts[1:] else 0)

    def context(start, position):
        return min(position - start, min(start + room, length) - 1 - position)

    for start, own in windows:
        for position in own:
            assert context(start, position) == max(context(other, position) for other in starts)
