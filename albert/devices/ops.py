"""Operations of which some devices have a fused form; the one place that chooses between them.

The variables and their names are the caller's, so that checkpoints do not depend on the device.
"""

from __future__ import annotations

import functools
import math

import tensorflow.compat.v1 as tf

from albert.devices import device, habana, mask_seeds

# Of the tanh form of GELU.
_GELU_SCALE, _GELU_CUBIC = math.sqrt(2 / math.pi), 0.044715


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
    half = 0.5 * x
    # x * x * x: a general power costs many times more.
    risen = 1.0 + tf.tanh(_GELU_SCALE * (x + _GELU_CUBIC * (x * x * x)))
    with half.graph.gradient_override_map({"Mul": _gradient_of_gelu()}):
        return half * risen


@functools.cache
def _gradient_of_gelu() -> str:
    """Returns the registered name of the gradient of the last product of `gelu`.

    It passes on to x / 2 what is due to x by all ways, from the factors h = x / 2 and
    r = 1 + tanh(s (x + c x^3)) alone, where TensorFlow's own gradients need four more tensors:
    dy r (1 + h (2 - r) (2 s + 24 s c h^2)).
    """
    name = "GeluProduct"

    @tf.RegisterGradient(name)
    def _gradient(operation: tf.Operation, dy: tf.Tensor):
        half, risen = operation.inputs
        slope = 2 * _GELU_SCALE
        # What does not need `dy` would be computed in the forward pass, and kept.
        with tf.control_dependencies([dy]):
            steep = half * (slope + (12 * slope * _GELU_CUBIC) * tf.square(half))
            return dy * (risen * (1.0 + (2.0 - risen) * steep)), None

    return name


def gelu_erf(x: tf.Tensor) -> tf.Tensor:
    """Applies the Gaussian Error Linear Unit itself (https://arxiv.org/abs/1606.08415)."""
    if device.is_hpu():
        return habana.gelu(x, approximate=False)
    return 0.5 * x * (1.0 + tf.math.erf(math.sqrt(0.5) * x))


def dropout(x: tf.Tensor, rate: float, site: str | None = None) -> tf.Tensor:
    """Sets elements to 0 with probability `rate` and scales the others by 1 / (1 - rate).

    In a graph with a seed (`tf.set_random_seed`) the mask is a function of that seed, of the global
    step, of the micro-batch where a step has several, and of the site alone, so that a resumed run
    draws what an uninterrupted one would have drawn. The micro-batch is counted by a local
    variable. On the HPU the device draws the mask, from seed and site; it does not follow the
    step.

    Args:
      x: float, of any shape.
      rate: from 0 to below 1.
      site: a name of the model's; without, see `mask_seeds.site_seed`.
    """
    graph_seed, _ = tf.get_seed(None)
    number = None if graph_seed is None else mask_seeds.site_seed(graph_seed, site)
    if device.is_hpu():
        return habana.dropout(x, rate, graph_seed or 0, number or 0)
    if number is None:
        return tf.nn.dropout(x, rate=rate)
    seed = tf.stack([number, mask_seeds.step_seed()])
    return tf.nn.experimental.stateless_dropout(x, rate=rate, seed=seed)
