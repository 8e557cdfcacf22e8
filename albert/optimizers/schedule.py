"""Options of an optimizer, and their learning rate at each step: warm-up, then decay."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow.compat.v1 as tf

# Values of `shard_optimizer`; the third one is "state".
NONE, GRADIENTS = "none", "gradients"


class OptimizerOptions(NamedTuple):
    """Options of the optimizer and its schedule.

    Attributes:
      num_train_steps: the step at which the decay reaches 0.
      num_warmup_steps: steps of linear warm-up; 0 or None for none.
      optimizer: a name in `OPTIMIZERS`.
      poly_power: exponent of the decay of the schedule "linear", 1 for a straight line.
      start_warmup_step: the step at which the warm-up begins; the rate is 0 before.
      gradient_accumulation_steps: batches per optimizer step, whose gradients are accumulated, then
        sent, clipped and applied as the mean of one large batch.
      allreduce_dtype: type in which gradients are sent; None for float32.
      shard_optimizer: what is sharded over the workers, see `albert.optimizers.sharded`.
      epsilon: value that the optimizer adds to the root of the second moment.
      weight_decay: rate of decay of all weights except biases and layer norms.
      schedule: the rate after the warm-up, "linear" or "constant".
      scales_loss: whether to scale the loss dynamically, for gradients in float16.
    """

    learning_rate: float
    num_train_steps: int
    num_warmup_steps: int | None = 0
    optimizer: str = "adamw"
    poly_power: float = 1.0
    start_warmup_step: int = 0
    gradient_accumulation_steps: int = 1
    allreduce_dtype: tf.DType | None = None
    shard_optimizer: str = NONE
    epsilon: float = 1e-6
    weight_decay: float = 0.01
    schedule: str = "linear"
    scales_loss: bool = False


def _linear_decay(options: OptimizerOptions, step: tf.Tensor) -> tf.Tensor:
    """Returns the reference's rate, which decays from step 0, not from the end of the warm-up."""
    return tf.train.polynomial_decay(
        tf.constant(options.learning_rate, tf.float32),
        step,
        options.num_train_steps,
        end_learning_rate=0.0,
        power=options.poly_power,
        cycle=False,
    )


DECAYS = {
    "linear": _linear_decay,
    "constant": lambda options, step: tf.constant(options.learning_rate, tf.float32),
}


def learning_rate_at(options: OptimizerOptions, step: tf.Tensor) -> tf.Tensor:
    """Returns the rate, a float32 scalar, of a step, an integer scalar counted from 0."""
    rate = DECAYS[options.schedule](options, step)
    if not options.num_warmup_steps:
        return rate
    num_warmup_steps = float(options.num_warmup_steps)
    # Before the start of the warm-up, the reference's rates are negative and increase the loss.
    warmed = tf.maximum(tf.cast(step - options.start_warmup_step, tf.float32), 0.0)
    warmup_rate = options.learning_rate * (warmed / num_warmup_steps)
    return tf.where(warmed < num_warmup_steps, warmup_rate, rate)
