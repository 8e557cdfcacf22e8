"""The gradients and metrics of a batch, and variables that are initialized with zeros."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow.compat.v1 as tf


class StepMetrics(NamedTuple):
    """Scalar metrics of a batch, or their sums or means: loss, token count, embedding-row norms.

    They are sent as one vector, `tf.stack(metrics)`; `StepMetrics(*tf.unstack(vector))` reads it.
    """

    loss: tf.Tensor
    tokens: tf.Tensor
    # The sum of squares of all elements of the gradient rows of embedding tables.
    row_squares: tf.Tensor


class Gradients(NamedTuple):
    """The dense gradients of one batch, or their means over several, in the variables' shapes."""

    variables: Sequence[tf.Variable]
    values: Sequence[tf.Tensor]
    # For each gradient, whether `StepMetrics.row_squares` counts it in the norm.
    are_rows: Sequence[bool]
    # A vector of `StepMetrics`.
    metrics: tf.Tensor


def compute_gradients(
    loss: tf.Tensor,
    variables: Sequence[tf.Variable],
    num_tokens: tf.Tensor | None = None,
    colocate_gradients_with_ops: bool = False,
    scale: tf.Tensor | None = None,
) -> Gradients:
    """Returns the gradients of a batch for the variables that its loss depends on.

    With a `scale`, a float32 scalar, these are the gradients of `scale * loss`.
    """
    gradients = tf.gradients(
        loss, variables, scale, colocate_gradients_with_ops=colocate_gradients_with_ops
    )
    pairs = [(g, v) for g, v in zip(gradients, variables, strict=True) if g is not None]
    # As in the reference, each token's gradient row of an embedding table counts separately in the
    # norm, even if several tokens share a row. So the squares are computed before rows are summed.
    are_rows = [isinstance(gradient, tf.IndexedSlices) for gradient, _ in pairs]
    rows = [g.values for g, _ in pairs if isinstance(g, tf.IndexedSlices)]
    squares = sum((2 * tf.nn.l2_loss(values) for values in rows), tf.constant(0.0))
    tokens = tf.cast(0 if num_tokens is None else num_tokens, tf.float32)
    return Gradients(
        variables=[variable for _, variable in pairs],
        values=[_dense(gradient, variable) for gradient, variable in pairs],
        are_rows=are_rows,
        metrics=tf.stack(StepMetrics(loss, tokens, squares)),
    )


def _dense(gradient: tf.Tensor | tf.IndexedSlices, variable: tf.Variable) -> tf.Tensor:
    """Returns a gradient in the static shape of its variable."""
    if isinstance(gradient, tf.IndexedSlices):
        return tf.math.unsorted_segment_sum(gradient.values, gradient.indices, variable.shape[0])
    return gradient


def zeros_of(shape: Sequence[int], dtype: tf.DType) -> tf.Tensor:
    """Returns zeros that are not a constant, which a session would keep next to the variable."""
    return tf.fill(shape, tf.placeholder_with_default(tf.zeros([], dtype), []))


def local_zeros(name: str, shape: Sequence[int], dtype: tf.DType = tf.float32) -> tf.Variable:
    """Creates a local variable of this worker, which checkpoints do not contain."""
    return tf.get_variable(
        name,
        shape,
        dtype,
        zeros_of,
        trainable=False,
        collections=[tf.GraphKeys.LOCAL_VARIABLES],
        use_resource=True,
    )
