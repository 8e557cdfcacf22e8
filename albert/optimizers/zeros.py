"""Variables that are zeros at the beginning."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow.compat.v1 as tf


def zeros_of(shape: Sequence[int], dtype: tf.DType) -> tf.Tensor:
    """Returns zeros that TensorFlow does not take for a constant.

    As one the session would keep them for as long as it lives, beside the variable.
    """
    return tf.fill(shape, tf.placeholder_with_default(tf.zeros([], dtype), []))


def local_zeros(name: str, shape: Sequence[int], dtype: tf.DType = tf.float32) -> tf.Variable:
    """Returns a variable of this worker's own, which a checkpoint does not have."""
    return tf.get_variable(
        name,
        shape,
        dtype,
        zeros_of,
        trainable=False,
        collections=[tf.GraphKeys.LOCAL_VARIABLES],
        use_resource=True,
    )
