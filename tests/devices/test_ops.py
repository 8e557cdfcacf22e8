"""Operations that only some devices have: their numbers, and where they are used."""

import numpy as np
import pytest
import scipy.special
import tensorflow.compat.v1 as tf

from albert.devices import device, onednn, ops


def layer_norm_of(x, gamma, beta):
    """Returns the result in a graph that allows fused operations, and its types of operations."""
    with tf.Graph().as_default() as graph, tf.Session(config=device.session_config()) as session:
        onednn.allow()
        normalized = ops.layer_norm(tf.constant(x), tf.constant(gamma), tf.constant(beta), 1e-12)
        return session.run(normalized), {operation.type for operation in graph.get_operations()}


@pytest.mark.parametrize(
    ("has_kernel", "shape"), [(True, [7]), (True, [2, 7]), (False, [7]), (True, [2, 3, 7])]
)
def test_layer_norm_is_that_of_the_paper_with_and_without_a_kernel(monkeypatch, has_kernel, shape):
    """A small variance shows another epsilon than 1e-12. The kernel is for matrices and batches."""
    if not has_kernel:
        monkeypatch.setattr(onednn, "has_layer_norm", lambda: False)
    elif not onednn.has_layer_norm():
        pytest.skip("this TensorFlow has no such kernel")
    rng = np.random.default_rng(0)
    x, gamma, beta = (rng.normal(size=n).astype(np.float32) for n in ([*shape, 64], 64, 64))
    x[..., 0, :] *= 1e-4
    result, types = layer_norm_of(x, gamma, beta)
    exact = x.astype(np.float64) - x.astype(np.float64).mean(-1, keepdims=True)
    exact /= np.sqrt((exact**2).mean(-1, keepdims=True) + 1e-12)
    np.testing.assert_allclose(result, exact * gamma + beta, rtol=0, atol=3e-6)
    assert ("_MklLayerNorm" in types) == (has_kernel and len(shape) in (1, 2))


def test_other_devices_build_the_usual_operations(monkeypatch):
    monkeypatch.setattr(device, "_device", device.Device("gpu", "a test"))
    with tf.Graph().as_default():
        onednn.allow()
        ops.layer_norm(tf.ones([2, 2]), tf.ones([2]), tf.ones([2]), 1e-12)
        assert "_MklLayerNorm" not in {o.type for o in tf.get_default_graph().get_operations()}


ACTIVATIONS = {
    None: lambda x: x,
    "linear": lambda x: x,
    "gelu": lambda x: x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    "GELU_erf": lambda x: x / 2 * (1 + scipy.special.erf(x / np.sqrt(2))),
    "relu": lambda x: np.maximum(x, 0),
    "tanh": np.tanh,
}


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_fused_dense_layer_computes_its_formula(activation):
    if not onednn.has_dense():
        pytest.skip("this TensorFlow has no such kernel here")
    rng = np.random.default_rng(0)
    values = [rng.normal(size=n).astype(np.float32) for n in ([5, 12], [12, 7], 7)]
    with tf.Graph().as_default(), tf.Session(config=device.session_config()) as session:
        tensors = [tf.constant(value) for value in values]
        onednn.allow()
        assert onednn.dense(*tensors, activation) is None
        onednn.allow_dense()
        result = session.run(onednn.dense(*tensors, activation))
        assert onednn.dense(*tensors, "swish") is None
        assert onednn.dense(tensors[0][tf.newaxis], *tensors[1:], activation) is None
    x, weights, bias = (value.astype(np.float64) for value in values)
    np.testing.assert_allclose(result, ACTIVATIONS[activation](x @ weights + bias), atol=3e-6)


def test_oneDNN_can_be_switched_off(monkeypatch):
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    with tf.Graph().as_default() as graph:
        onednn.allow()
        onednn.allow_dense()
        assert not onednn.allows_dense(graph)
