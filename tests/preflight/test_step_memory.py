"""The memory of a training step: by hand for a small graph, and as measured for models."""

import pytest
import tensorflow.compat.v1 as tf

from albert.optimization import OptimizerOptions, build_train_step
from albert.preflight.memory import cpu_memory, estimate_memory
from benchmarks.memory import make_step


def small_step(accumulation: int) -> dict[str, int]:
    """Builds 8 x 5 inputs through two weight matrices with a tanh between them."""
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [8, 5])
        first = tf.get_variable("first", [5, 7])
        second = tf.get_variable("second", [7, 3])
        loss = tf.reduce_sum(tf.matmul(tf.tanh(tf.matmul(x, first)), second))
        options = OptimizerOptions(1e-3, 10, gradient_accumulation_steps=accumulation)
        return estimate_memory(build_train_step(loss, options).op)


def test_the_parts_of_a_small_step_are_as_by_hand():
    parts, accumulating = map(small_step, (1, 2))
    weights = 4 * (5 * 7 + 7 * 3)
    assert parts["parameters"] == weights
    assert parts["optimizer state"] == 2 * weights
    # The input and the tanh.
    assert parts["activations"] - 4 * (8 * 5 + 8 * 7) in range(0, 64)
    # The gradient of the product and of the tanh, and the update's copies of the variables.
    assert parts["gradients and updates"] in range(3 * weights, 6 * weights)
    assert parts["in all"] == sum(v for k, v in parts.items() if k != "in all")
    assert "accumulated gradients" not in parts
    # And three metrics of the step.
    assert accumulating["accumulated gradients"] == weights + 4 * 3


def test_resident_memory_is_as_by_hand():
    parts = {"activations": 50, "gradients and updates": 30, "in all": 200}
    program = cpu_memory({**parts, "activations": -30, "in all": 0})
    assert cpu_memory(parts) == 200 + 8 + program
    assert cpu_memory({**parts, "accumulated gradients": 7}) == 200 + 8 + 7 + program


# Gigabytes of a program before training and at its peak, measured by benchmarks/memory.py.
MEASURED = [
    ("base", 1, False, 0.47, 2.89),
    pytest.param("xxlarge", 2, True, 0.48, 7.24, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("size", "accumulation", "checkpointing", "program", "peak"), MEASURED)
def test_the_estimate_is_as_measured(size, accumulation, checkpointing, program, peak):
    path = f"configs/albert_{size}_v2.json"
    with tf.Graph().as_default():
        step, _ = make_step(path, 4, 384, checkpointing, accumulation)
        needed = cpu_memory(estimate_memory(step)) / 1e9
    assert program + needed == pytest.approx(peak, rel=0.15)
