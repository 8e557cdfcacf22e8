"""Operations that are fused on some devices, and the seeds of dropout masks.

The caller creates and names all variables, so checkpoints do not depend on the device.
The seed of a mask is a function of the graph's seed, the step, the micro-batch and a site. A site
is a name from the model's code, such as `bert/encoder/layer_3/inner_group_0/output`. Seeds do not
depend on the number or the names of operations. An additional operation elsewhere thus changes no
mask, and a layer that is built twice, for recomputation, draws the same mask.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import math

import tensorflow.compat.v1 as tf

from albert.devices import device, habana

# Constants of the tanh form of GELU.
_GELU_SCALE, _GELU_CUBIC = math.sqrt(2 / math.pi), 0.044715


def layer_norm(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float) -> tf.Tensor:
    """Applies layer normalization over the last axis (https://arxiv.org/abs/1607.06450).

    `x` is [..., W]; scale `gamma` and shift `beta` are [W]; `epsilon` is added to the variance.
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
    # x * x * x, because a general power is many times slower.
    risen = 1.0 + tf.tanh(_GELU_SCALE * (x + _GELU_CUBIC * (x * x * x)))
    with half.graph.gradient_override_map({"Mul": _gradient_of_gelu()}):
        return half * risen


@functools.cache
def _gradient_of_gelu() -> str:
    """Registers the gradient of the last product in `gelu` and returns its name."""
    name = "GeluProduct"

    @tf.RegisterGradient(name)
    def _gradient(operation: tf.Operation, dy: tf.Tensor):
        # The factor h = x / 2 gets the whole derivative, and r = 1 + tanh(s (x + c x^3)) none:
        # dy r (1 + h (2 - r) (2 s + 24 s c h^2)). This needs only these two factors, while
        # TensorFlow's gradients need four more tensors.
        half, risen = operation.inputs
        slope = 2 * _GELU_SCALE
        # Without this dependency, TensorFlow would compute the part that does not need `dy` in the
        # forward pass, and keep it in memory.
        with tf.control_dependencies([dy]):
            steep = half * (slope + (12 * slope * _GELU_CUBIC) * tf.square(half))
            return dy * (risen * (1.0 + (2.0 - risen) * steep)), None

    return name


def gelu_erf(x: tf.Tensor) -> tf.Tensor:
    """Applies the exact Gaussian Error Linear Unit (https://arxiv.org/abs/1606.08415)."""
    if device.is_hpu():
        return habana.gelu(x, approximate=False)
    return 0.5 * x * (1.0 + tf.math.erf(math.sqrt(0.5) * x))


def dropout(x: tf.Tensor, rate: float, site: str | None = None) -> tf.Tensor:
    """Sets elements to 0 with probability `rate` and scales the others by 1 / (1 - rate).

    In a graph with a seed (`tf.set_random_seed`), the mask depends only on that seed, the global
    step, the micro-batch within the step, and the site. A resumed run thus draws the same masks as
    an uninterrupted one. A local variable counts the micro-batches. On the HPU, the device draws
    the mask from the seed and the site; there the mask does not depend on the step. If there is no
    `site`, see `site_seed`.
    """
    graph_seed, _ = tf.get_seed(None)
    number = None if graph_seed is None else site_seed(graph_seed, site)
    if device.is_hpu():
        return habana.dropout(x, rate, graph_seed or 0, number or 0)
    if number is None:
        return tf.nn.dropout(x, rate=rate)
    seed = tf.stack([number, step_seed()])
    return tf.nn.experimental.stateless_dropout(x, rate=rate, seed=seed)


# Names of collections: the sites of a graph's dropouts, and the tensor of `step_seed`.
SITES = "dropout_places"
_STEP_SEED = "dropout_moment"
# 2**31 divided by the golden ratio, whose multiples stay far apart: modulo 2**31, the seeds of any
# two of the first 10 million steps differ by more than 64 micro-batches.
_STRIDE = 1327217885


def site_seed(graph_seed: int, site: str | None = None) -> int:
    """Returns the seed of a site in a graph with a seed, from 0 to below 2**31.

    Dropouts with the same site draw the same mask. If `site` is None, the site consists of the
    variable scope and the number of earlier dropouts without a site in that scope.
    """
    with tf.init_scope():
        sites = tf.get_collection_ref(SITES)
    if site is None:
        scope = tf.get_variable_scope().name
        numbered = (f"{scope}/dropout_{count}" for count in itertools.count())
        site = next(name for name in numbered if name not in sites)
    sites.append(site)
    digest = hashlib.blake2b(f"{graph_seed} {site}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") % 2**31


def step_seed() -> tf.Tensor:
    """Returns an int32 seed of the global step and the micro-batch; a graph computes it once."""
    with tf.init_scope(), tf.name_scope(f"{_STEP_SEED}/"):
        if not tf.get_collection(_STEP_SEED):
            step = tf.cast(tf.train.get_or_create_global_step(), tf.int64)
            count = step * _STRIDE + tf.cast(_batches_done(), tf.int64)
            tf.add_to_collection(_STEP_SEED, tf.cast(tf.math.floormod(count, 2**31), tf.int32))
        return tf.get_collection(_STEP_SEED)[0]


def _batches_done() -> tf.Tensor:
    """Returns the value of `micro_batch`; 0 if local variables are not initialized."""
    # Programs written for the reference may not initialize them, and use no micro-batches.
    # `tf.cond` would initialize devices while the graph is built.
    counter = micro_batch()
    if_not, if_so = tf.raw_ops.Switch(data=0, pred=counter.is_initialized())
    with tf.control_dependencies([tf.identity(if_so)]):
        value = counter.read_value()
    return tf.raw_ops.Merge(inputs=[if_not, value]).output


def micro_batch() -> tf.Variable:
    """Returns the graph's int32 counter of completed micro-batches in the current step.

    The optimizer increments it if a step has several micro-batches. It is a local variable, because
    checkpoints are written between steps, when it is 0.
    """
    # The same variable for all scopes.
    root = tf.VariableScope(tf.AUTO_REUSE)
    with tf.init_scope(), tf.variable_scope(root, auxiliary_name_scope=False):
        return tf.get_variable(
            "micro_batch",
            [],
            tf.int32,
            tf.zeros_initializer(),
            trainable=False,
            collections=[tf.GraphKeys.LOCAL_VARIABLES],
            use_resource=True,
        )
