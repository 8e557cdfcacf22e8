"""A dynamic loss scale, which keeps small gradients above float16's smallest numbers.

The loss is multiplied by a scale before the backward pass, and the gradients are divided by it
before the update (https://arxiv.org/abs/1710.03740, section 3.2). If the scaled gradients overflow,
the step is skipped and the scale halved; after many steps without an overflow, it is doubled. All
scales are powers of two, so scaling only changes exponents.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import tensorflow.compat.v1 as tf

from albert.checkpoints.initialization import LOSS_SCALE
from albert.core.errors import NOT_FINITE

# The initial scale and the interval of TensorFlow's `LossScaleOptimizer`.
INITIAL_SCALE, STEPS_TO_DOUBLE = 2.0**15, 2000
# With this scale, the gradients overflow even without scaling.
_SMALLEST = 1.0


class LossScale(NamedTuple):
    """The scalar variables of a loss scale, equal on all workers, which checkpoints contain.

    Attributes:
      scale: float32, the factor of the loss.
      good_steps: int64, the number of steps since the scale last changed.
      skipped_steps: int64, the number of steps that were skipped since the training began.
      value: a float32 tensor, the factor of the loss in a step, also after `scale` has changed.
    """

    scale: tf.Variable
    good_steps: tf.Variable
    skipped_steps: tf.Variable
    value: tf.Tensor

    @classmethod
    def create(cls) -> LossScale:
        """Creates the variables `loss_scale`, `loss_scale/good_steps` and `.../skipped_steps`."""
        scale = _scalar(LOSS_SCALE, INITIAL_SCALE, tf.float32)
        good, skipped = (
            _scalar(f"{LOSS_SCALE}/{name}", 0, tf.int64) for name in ("good_steps", "skipped_steps")
        )
        return cls(scale, good, skipped, tf.identity(scale))

    def update_or_skip(self, norm: tf.Tensor, update: Callable[[], tf.Operation]) -> tf.Tensor:
        """Runs an update of weights and optimizer state if gradients are finite; adapts the scale.

        `norm`, float32, is the gradients' global norm, the same on all workers. The result exists
        after all changes. If the gradients overflow at the smallest scale, the operation fails as a
        step in float32 does.
        """

        def use() -> tf.Tensor:
            count = self.good_steps + 1
            is_due = tf.equal(count, STEPS_TO_DOUBLE)
            with tf.control_dependencies([update()]):
                return self._set(
                    tf.where(is_due, self.value * 2.0, self.value),
                    tf.where(is_due, tf.zeros_like(count), count),
                )

        def skip() -> tf.Tensor:
            is_smallest = self.value <= _SMALLEST
            checked = tf.debugging.check_numerics(tf.where(is_smallest, norm, 0.0), NOT_FINITE)
            with tf.control_dependencies([checked]):
                counted = self.skipped_steps.assign_add(1)
            with tf.control_dependencies([counted]):
                return self._set(self.value / 2.0, 0)

        return tf.cond(tf.math.is_finite(norm), use, skip)

    def _set(self, scale: tf.Tensor, good_steps: tf.Tensor | int) -> tf.Tensor:
        """Assigns values to the variables; returns a tensor that exists afterwards."""
        with tf.control_dependencies(
            [self.scale.assign(scale), self.good_steps.assign(good_steps)]
        ):
            return tf.constant(True)


def _scalar(name: str, value: float, dtype: tf.DType) -> tf.Variable:
    return tf.get_variable(
        name, [], dtype, tf.constant_initializer(value), trainable=False, use_resource=True
    )
