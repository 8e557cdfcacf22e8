"""The learning rate at each step: warm-up, then decay."""

from __future__ import annotations

import numpy as np
import tensorflow.compat.v1 as tf

from albert.optimizers.options import OptimizerOptions


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


def _cosine_decay(options: OptimizerOptions, step: tf.Tensor) -> tf.Tensor:
    """Returns half a cosine after the warm-up (https://arxiv.org/abs/1608.03983, no restarts)."""
    first = options.start_warmup_step + (options.num_warmup_steps or 0)
    steps = max(options.num_train_steps - first, 1)
    done = tf.clip_by_value(tf.cast(step - first, tf.float32) / steps, 0.0, 1.0)
    return options.learning_rate * 0.5 * (1.0 + tf.cos(np.pi * done))


DECAYS = {
    "linear": _linear_decay,
    "constant": lambda options, step: tf.constant(options.learning_rate, tf.float32),
    "cosine": _cosine_decay,
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
