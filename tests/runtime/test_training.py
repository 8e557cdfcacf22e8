"""What ends a training, in words for people; the training itself is tested by whole runs."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

from runtime import graph_keys
from runtime.training import reason_for_people


def error_of(make_operation) -> tf.errors.OpError:
    """TensorFlow's own error when an operation fails."""
    with (
        tf.Graph().as_default(),
        tf.Session() as session,
        pytest.raises(tf.errors.OpError) as caught,
    ):
        session.run(make_operation())
    return caught.value


def test_a_full_disk():
    error = error_of(lambda: tf.io.write_file("/dev/full", "x" * 100000))
    # TensorFlow's hint, of whatever is exhausted.
    assert "OOM" in error.message
    reason = reason_for_people(error, "out", 7)
    assert reason.startswith("out: a checkpoint cannot be written (No space left on device)")


def test_out_of_memory():
    """More than any machine has."""
    error = error_of(lambda: tf.reduce_sum(tf.fill([1 << 25, 1 << 20], tf.random.normal([]))))
    assert "lower --train_batch_size" in reason_for_people(error, "out", 7)


def test_not_finite(tmp_path):
    error = error_of(
        lambda: tf.debugging.check_numerics(tf.log(tf.constant(-1.0)), graph_keys.NOT_FINITE)
    )
    reason = reason_for_people(error, str(tmp_path), 7)
    assert "NaN or infinite at step 7" in reason and "no checkpoint was written yet" in reason


def test_anything_else_is_a_bug():
    error = error_of(lambda: tf.strings.to_number(tf.constant("x")))
    assert reason_for_people(error, "out", 7) is None
