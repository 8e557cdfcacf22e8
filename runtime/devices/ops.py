"""Operations of which some devices have a fused form; the one place that chooses between them.

The variables and their names are the caller's, so that checkpoints do not depend on the device.
"""

from __future__ import annotations

import math

import tensorflow.compat.v1 as tf

from runtime.devices import device, habana, mask_seeds


def layer_norm(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float) -> tf.Tensor:
    """Applies layer normalization over the last axis (https://arxiv.org/abs/1607.06450).

    Args:
      x: float [..., W].
      gamma, beta: float [W], scale and shift.
      epsilon: added to the variance.
    """
    if device.is_hpu():
        return habana.layer_norm(x, gamma, beta, epsilon)
    centered = x - tf.reduce_mean(x, axis=-1, keepdims=True)
    variance = tf.reduce_mean(tf.square(centered), axis=-1, keepdims=True)
    return centered * tf.rsqrt(variance + epsilon) * gamma + beta


def gelu(x: tf.Tensor) -> tf.Tensor:
    """Applies the Gaussian Error Linear Unit, the tanh form of https://arxiv.org/abs/1606.08415."""
    if device.is_hpu():
        return habana.gelu(x)
    return _gelu(x)


@tf.custom_gradient
def _gelu(x: tf.Tensor):
    """Returns the tanh form, as TensorFlow's optimizer knows it, and its gradient.

    The gradient needs `x` and the tanh alone, where TensorFlow's own keeps four more tensors.
    """
    scale, cubic = math.sqrt(2 / math.pi), 0.044715
    # x * x * x: a general power costs many times more.
    tanh = tf.tanh(scale * (x + cubic * (x * x * x)))

    def gradient(dy: tf.Tensor) -> tf.Tensor:
        # What does not need `dy` would be computed in the forward pass, and kept.
        with tf.control_dependencies([dy]):
            slope = scale + (3 * scale * cubic) * tf.square(x)
            return dy * (0.5 + 0.5 * tanh + (0.5 * x) * (1.0 - tf.square(tanh)) * slope)

    return 0.5 * x * (1.0 + tanh), gradient


def gelu_erf(x: tf.Tensor) -> tf.Tensor:
    """Applies the Gaussian Error Linear Unit itself (https://arxiv.org/abs/1606.08415)."""
    if device.is_hpu():
        return habana.gelu(x, approximate=False)
    return 0.5 * x * (1.0 + tf.math.erf(math.sqrt(0.5) * x))


def dropout(x: tf.Tensor, rate: float, place: str | None = None) -> tf.Tensor:
    """Sets elements to 0 with probability `rate` and scales the others by 1 / (1 - rate).

    In a graph with a seed (`tf.set_random_seed`) the mask is a function of that seed, of the global
    step, of the micro-batch where a step has several, and of the place alone, so that a resumed run
    draws what an uninterrupted one would have drawn. The micro-batch is counted by a local
    variable. On the HPU the device draws the mask, from seed and place; it does not follow the
    step.

    Args:
      x: float, of any shape.
      rate: from 0 to below 1.
      place: a name of the model's; without, see `mask_seeds.number_of`.
    """
    graph_seed, _ = tf.get_seed(None)
    number = None if graph_seed is None else mask_seeds.number_of(graph_seed, place)
    if device.is_hpu():
        return habana.dropout(x, rate, graph_seed or 0, number or 0)
    if number is None:
        return tf.nn.dropout(x, rate=rate)
    seed = tf.stack([number, mask_seeds.moment()])
    return tf.nn.experimental.stateless_dropout(x, rate=rate, seed=seed)
