"""The plan of a training: batch size and number of steps, for any number of workers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from albert.checkpoints.model_folder import recorded_settings
from albert.core.errors import FlagError, UserError
from albert.distributed import collectives
from albert.settings.fields import TOO_LARGE
from albert.settings.run_settings import RunSettings


class Steps(NamedTuple):
    """The steps of a training, which its learning rate follows; see `OptimizerOptions`."""

    num_train_steps: int
    num_warmup_steps: int
    start_warmup_step: int = 0
    poly_power: float = 1.0


def global_batch_size(settings: RunSettings) -> int:
    """Returns the examples per step, over all workers and micro-batches."""
    return settings.train_batch_size * settings.gradient_accumulation_steps * collectives.size()


def checkpoints_to_keep(settings: RunSettings) -> int:
    """Returns how many checkpoints to keep during training; 0 for all."""
    return 0 if settings.do_eval else settings.keep_checkpoint_max


def steps_with_warmup(settings: RunSettings, num_examples: int, train_file: str) -> Steps:
    """Returns the numbers of training and warm-up steps, of --train_steps or --num_train_epochs.

    As in the reference, an epoch counts examples, not features. Raises a `UserError` if there is
    less than one step, or the number is too large.
    """
    steps, epochs, given = settings.train_steps, settings.num_train_epochs, settings.given
    # Given epochs replace a default number of steps.
    if steps < 1 or (epochs and "num_train_epochs" in given and "train_steps" not in given):
        size = global_batch_size(settings)
        steps = int(num_examples / size * epochs)
        if steps >= TOO_LARGE:
            raise FlagError(f"--num_train_epochs {epochs:g} takes too many steps: {steps:g}")
        if not steps:
            raise UserError(
                f"{train_file}: {num_examples} examples are less than one step of {size} in "
                f"--num_train_epochs {epochs:g}; add examples, or lower --train_batch_size"
            )
    return Steps(steps, int(steps * settings.warmup_proportion))


WORKERS = "number of workers"
_BATCH, _BATCHES = "train_batch_size", "gradient_accumulation_steps"
_CUT = (WORKERS, _BATCHES, _BATCH)


def original_batch_settings(settings: RunSettings, current: dict) -> dict:
    """Returns a run's settings with the batch sizes that it was started with in --output_dir.

    Without --elastic_resume or a recorded run, returns `current`, the `training_settings`, as is.
    Raises a `FlagError` if the recorded global batch size cannot be split over this number of
    workers, and a `UserError` if the record of the run is damaged.
    """
    if not settings.elastic_resume or settings.overwrite_output_dir:
        return current
    begun = recorded_settings(settings.output_dir)
    if not begun or not begun.keys() >= {*_CUT}:
        return current
    examples, size = _examples(begun), current[WORKERS] * current[_BATCH]
    if examples % size:
        raise FlagError(
            f"--elastic_resume: the run in {settings.output_dir} has steps of {examples} examples, "
            f"which is no multiple of {size}, --{_BATCH} times the number of workers; change one "
            "of them"
        )
    return {**current, **{name: begun[name] for name in _CUT}}


def _examples(current: Mapping[str, Any]) -> int:
    return math.prod(current[name] for name in _CUT)


def rescale_to_current_workers(settings: RunSettings, begun: Mapping[str, Any]) -> RunSettings:
    """Returns the settings for resuming a run with the current workers; `begun` are the run's."""
    if not begun:
        return settings
    now = collectives.size()
    batches = _examples(begun) // (now * settings.train_batch_size)
    scale = begun[WORKERS] / now if settings.scale_learning_rate else 1.0
    return settings.replaced(
        gradient_accumulation_steps=batches, learning_rate=settings.learning_rate * scale
    )
