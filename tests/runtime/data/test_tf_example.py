"""Examples written byte by byte, read by TensorFlow."""

from __future__ import annotations

import hypothesis
import pytest
import tensorflow.compat.v1 as tf
from hypothesis import strategies as st

from runtime.data import tf_example

NUMBERS = st.lists(st.integers(0, 2**63 - 1), max_size=40)


@hypothesis.settings(max_examples=50)
@hypothesis.given(st.dictionaries(st.text(max_size=300), NUMBERS, max_size=5))
def test_tensorflow_reads_what_is_written(fields):
    example = tf.train.Example.FromString(tf_example.serialize(fields))
    features = example.features.feature
    assert {key: list(features[key].int64_list.value) for key in features} == fields


@hypothesis.settings(max_examples=50)
@hypothesis.given(NUMBERS)
def test_the_bytes_are_those_of_protocol_buffers(numbers):
    """Of one feature; the order of several is free."""
    feature = tf.train.Feature(int64_list=tf.train.Int64List(value=numbers))
    example = tf.train.Example(features=tf.train.Features(feature={"ids": feature}))
    assert tf.train.Example.FromString(tf_example.serialize({"ids": numbers})) == example
    if numbers:
        assert tf_example.serialize({"ids": numbers}) == example.SerializeToString()


def test_negative_numbers_are_refused():
    with pytest.raises(ValueError):
        tf_example.serialize({"ids": [-1]})
