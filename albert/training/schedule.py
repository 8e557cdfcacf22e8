"""How long, how fast and in what batches a run trains."""

from __future__ import annotations

from albert.core.errors import FlagError, UserError
from albert.distributed import collectives
from albert.settings.fields import TOO_LARGE
from albert.settings.run_settings import RunSettings
from albert.training.loop import TrainingPlan


def global_batch_size(settings: RunSettings) -> int:
    """Returns the examples of a step, of all workers and accumulated batches together."""
    return settings.train_batch_size * settings.gradient_accumulation_steps * collectives.size()


def kept_in_training(settings: RunSettings) -> int:
    """Returns how many checkpoints stay while training goes on; 0 for all."""
    return 0 if settings.do_eval else settings.keep_checkpoint_max


def training_plan(settings: RunSettings, num_steps: int) -> TrainingPlan:
    """Returns how to train `num_steps` steps."""
    return TrainingPlan(
        num_steps,
        global_batch_size(settings),
        settings.gradient_accumulation_steps,
        settings.save_checkpoints_steps,
        settings.save_summary_steps,
        settings.log_steps,
        kept_in_training(settings),
        settings.save_checkpoints_minutes,
    )


def learning_rate(settings: RunSettings) -> float:
    """Returns the highest learning rate under the flags."""
    return settings.learning_rate * (collectives.size() if settings.scale_learning_rate else 1)


def steps_of_epochs(settings: RunSettings, num_examples: int, train_file: str) -> int:
    """Returns the steps of --num_train_epochs; they follow examples, not features.

    So it is in the reference.

    Raises:
      UserError: there is less than one, or too many to count.
    """
    size, epochs = global_batch_size(settings), settings.num_train_epochs
    steps = int(num_examples / size * epochs)
    if steps >= TOO_LARGE:
        raise FlagError(f"--num_train_epochs {epochs:g} takes too many steps: {steps:g}")
    if not steps:
        raise UserError(
            f"{train_file}: {num_examples} examples are less than one step of {size} in "
            f"--num_train_epochs {epochs:g}; give more of them, or lower --train_batch_size"
        )
    return steps
