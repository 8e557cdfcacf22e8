"""The memory of a training step, counted by hand for a small graph."""

import tensorflow.compat.v1 as tf

from optimization import create_optimizer
from runtime.memory import estimate_memory


def small_graph(**options) -> tf.Graph:
    """8 x 5 inputs through two weight matrices with a tanh between them."""
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [8, 5])
        first = tf.get_variable("first", [5, 7])
        second = tf.get_variable("second", [7, 3])
        loss = tf.reduce_sum(tf.matmul(tf.tanh(tf.matmul(x, first)), second))
        create_optimizer(loss, 1e-3, 10, 0, False, **options)
    return graph


def test_parts():
    parts = estimate_memory(small_graph())
    weights = 4 * (5 * 7 + 7 * 3)
    assert parts["parameters"] == parts["gradients"] == weights
    assert parts["optimizer state"] == 2 * weights
    # The input and the tanh; the rest of the backward pass takes constants and shapes.
    assert parts["activations"] - 4 * (8 * 5 + 8 * 7) in range(0, 64)
    assert parts["in all"] == sum(v for k, v in parts.items() if k != "in all")
    assert "accumulated gradients" not in parts


def test_accumulated_gradients():
    parts = estimate_memory(small_graph(gradient_accumulation_steps=2))
    # Three facts of the step and the counter besides.
    assert parts["accumulated gradients"] == parts["parameters"] + 4 * 3 + 4
