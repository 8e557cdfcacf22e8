"""Internal operations of TensorFlow's CPU kernels with oneDNN, for graphs that only predict.

A graph with them has no gradients and works only in sessions of this process. Where TensorFlow or
the processor lacks a kernel, and on other devices, a graph has the usual operations.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from albert.devices import device
from albert.devices.machine import find_processor

# The types of the operations of `dense` and `layer_norm`.
DENSE, _LAYER_NORM = "_MklNativeFusedMatMul", "_MklLayerNorm"
# The ranks that the kernel of layer normalization takes.
_RANKS = (2, 3)
# The names of activations in the operation of `dense`, by those in `get_activation`.
_ACTIVATIONS: dict[str, list[bytes]] = {
    "linear": [],
    "gelu": [b"GeluApproximate"],
    "gelu_erf": [b"GeluExact"],
    "relu": [b"Relu"],
    "tanh": [b"Tanh"],
}
# Names of collections that are not empty in a graph that may have such operations, and in one whose
# dense layers are such operations.
_ALLOWED, _DENSE_ALLOWED = "onednn", "onednn_dense"


def allow() -> None:
    """Allows these operations in the current graph, if it runs on the CPU with oneDNN."""
    if device.has_onednn():
        tf.add_to_collection(_ALLOWED, True)


def allow_dense() -> None:
    """Allows `dense` in the current graph, if that allows these operations and TensorFlow has it.

    A graph whose weights have changed needs a new session, because `dense` keeps the first ones.
    """
    if tf.get_collection(_ALLOWED) and has_dense():
        tf.add_to_collection(_DENSE_ALLOWED, True)


def allows_dense(graph: tf.Graph) -> bool:
    """Returns whether a graph allows `dense`."""
    return bool(graph.get_collection(_DENSE_ALLOWED))


def layer_norm(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float) -> tf.Tensor | None:
    """Applies layer normalization, see `ops.layer_norm`; returns None where it is not allowed."""
    if x.shape.ndims in _RANKS and tf.get_collection(_ALLOWED) and has_layer_norm():
        return _layer_norm(x, gamma, beta, epsilon)
    return None


def dense(x: tf.Tensor, weights: Any, bias: Any, activation: object) -> tf.Tensor | None:
    """Applies a dense layer in one operation, which keeps the weights in the order that suits it.

    `x` is [M, K], `weights` are [K, N] and `bias` is [N]; the activation is as for
    `get_activation`. Returns None where it is not allowed, or for another rank or activation.
    """
    name = (activation or "linear").lower() if isinstance(activation, str | None) else ""
    if not allows_dense(x.graph) or x.shape.ndims != 2 or name not in _ACTIVATIONS:
        return None
    return _dense(x, weights, bias, name)


@functools.cache
def has_layer_norm() -> bool:
    """Returns whether TensorFlow has this layer normalization."""
    return _computes(1.0, lambda ones: _layer_norm(ones, ones[0], ones[0], 1.0))


@functools.cache
def has_dense() -> bool:
    """Returns whether TensorFlow has this dense layer, in bfloat16 and on this processor."""
    # On an older processor, the operation ends the process.
    if not find_processor().bfloat16()[0]:
        return False

    def build(ones: tf.Tensor) -> tf.Tensor:
        low = tf.cast(ones, tf.bfloat16)
        return tf.cast(_dense(low, low, low[0], "linear"), tf.float32)

    return _computes(3.0, build)


def _computes(value: float, build: Callable[[tf.Tensor], tf.Tensor]) -> bool:
    """Returns whether an operation, built for ones [2, 2], works and returns only `value`."""
    with tf.Graph().as_default(), tf.Session(config=device.session_config()) as session:
        try:
            result = session.run(build(tf.ones([2, 2])))
        except (ValueError, RuntimeError, tf.errors.OpError):
            return False
    return bool((result == value).all())


def _layer_norm(x: tf.Tensor, gamma: Any, beta: Any, epsilon: float) -> tf.Tensor:
    # TensorFlow's own fusion of the formula would drop the epsilon.
    attributes = {"epsilon": tf.AttrValue(f=epsilon)}
    return _create("layer_norm", _LAYER_NORM, [x, gamma, beta], attributes, x.shape)


def _dense(x: tf.Tensor, weights: Any, bias: Any, activation: str) -> tf.Tensor:
    fused = tf.AttrValue.ListValue(s=[b"BiasAdd", *_ACTIVATIONS[activation]])
    attributes = {
        "num_args": tf.AttrValue(i=1),
        "fused_ops": tf.AttrValue(list=fused),
        # TensorFlow sets this only for constants. Without it, the operation would reorder the
        # weights in every run, or use a slower product of oneDNN.
        "is_filter_const": tf.AttrValue(b=True),
        # The label with which the operation is registered.
        "_kernel": tf.AttrValue(s=b"MklNameChangeOp"),
    }
    shape = [x.shape[0], weights.shape[1]]
    # The name is that of the product which it replaces, for the rules of precision.
    return _create("MatMul", DENSE, [x, weights, bias], attributes, shape)


def _create(
    name: str, op: str, inputs: Sequence, attributes: Mapping[str, tf.AttrValue], shape: Any
) -> tf.Tensor:
    """Creates an operation, whose output has the type of the inputs."""
    # An operation's default name is its type, and no name may begin with "_".
    tensors = [tf.convert_to_tensor(value) for value in inputs]
    dtype = tensors[0].dtype
    attrs = {"T": tf.AttrValue(type=dtype.as_datatype_enum), **attributes}
    operation = tf.get_default_graph().create_op(op, tensors, [dtype], name=name, attrs=attrs)
    operation.outputs[0].set_shape(shape)
    return operation.outputs[0]
