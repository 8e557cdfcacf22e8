"""Examples written byte by byte and read by TensorFlow; sequences with their special tokens."""

import hypothesis
import tensorflow.compat.v1 as tf
from hypothesis import strategies as st

from albert.data import tf_example
from albert.data.sequences import SEQUENCE_KEYS, TokenSequence, make_sequence, sequence_entries

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
