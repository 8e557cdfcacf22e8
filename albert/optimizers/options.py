"""Options of an optimizer."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow.compat.v1 as tf

# Values of `shard_optimizer`; the third one is "state".
NONE, GRADIENTS = "none", "gradients"


class OptimizerOptions(NamedTuple):
    """Options of the optimizer and its schedule.

    Attributes:
      learning_rate: the peak learning rate.
      num_train_steps: the step at which the decay reaches 0.
      num_warmup_steps: steps of linear warm-up; 0 or None for none.
      optimizer: a name in `OPTIMIZERS`.
      poly_power: exponent of the decay of the schedule "linear", 1 for a straight line.
      start_warmup_step: the step at which the warm-up begins; the rate is 0 before.
      gradient_accumulation_steps: runs of the training op per optimizer step. The gradients of this
        many batches are accumulated, then sent, clipped and applied as the mean of one large batch.
      allreduce_dtype: type in which gradients are sent; None for float32.
      shard_optimizer: what is sharded over the workers, see `albert.optimizers.sharded`.
      epsilon: value that the optimizer adds to the root of the second moment.
      weight_decay: rate of decay of all weights except biases and layer norms.
      schedule: the rate after the warm-up, "linear", "constant" or "cosine".
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
