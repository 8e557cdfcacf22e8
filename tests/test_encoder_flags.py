"""What flags know without TensorFlow of what they choose from."""

from __future__ import annotations

import encoder_flags
import optimization
from glue import flags as glue_flags
from glue.tasks import PROCESSORS
from optimization import OptimizerOptions


def test_optimizers_and_their_defaults():
    assert list(optimization.OPTIMIZERS) == encoder_flags.OPTIMIZERS
    defaults = OptimizerOptions(1e-3, 1)
    assert defaults.epsilon == encoder_flags.EPSILON
    assert defaults.weight_decay == encoder_flags.WEIGHT_DECAY


def test_tasks_of_glue():
    assert (*PROCESSORS, glue_flags.CUSTOM) == glue_flags.TASKS
