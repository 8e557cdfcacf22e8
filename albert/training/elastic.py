"""A run that goes on with another number of workers: a step is of the same examples.

What a step is of, workers x batches of each x examples of a batch, is cut in another way, and the
number of batches that each worker adds up follows from the rest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import tensorflow.compat.v1 as tf

from albert.core.errors import FlagError
from albert.distributed import collectives
from albert.settings.run_settings import RunSettings
from albert.training.run_record import WORKERS, recorded_settings

_BATCH, _BATCHES = "train_batch_size", "gradient_accumulation_steps"
_CUT = (WORKERS, _BATCHES, _BATCH)


def as_begun(settings: RunSettings, shaping: dict) -> dict:
    """Returns what shapes a run, where its steps are cut as when it was begun in --output_dir.

    Without --elastic_resume, or where there is no run, that is what the flags say.

    Args:
      settings: the flags.
      shaping: what they come to, see `training_settings`.

    Raises:
      FlagError: these workers cannot have steps of as many examples.
      UserError: the record of the run is damaged.
    """
    if not settings.elastic_resume or settings.overwrite_output_dir:
        return shaping
    begun = recorded_settings(settings.output_dir)
    if not begun or not begun.keys() >= {*_CUT}:
        return shaping
    examples = _examples(begun)
    if examples % (shaping[WORKERS] * shaping[_BATCH]):
        numbers = [n for n in range(1, examples + 1) if examples % (n * shaping[_BATCH]) == 0]
        can = f"{', '.join(map(str, numbers))} can" if numbers else "no number of them can"
        now = shaping[WORKERS]
        raise FlagError(
            f"--elastic_resume: the run in {settings.output_dir} has steps of {examples} examples, "
            f"which {now} worker{'s' * (now > 1)} cannot share out in batches of --{_BATCH} "
            f"{shaping[_BATCH]}; {can}; or give another --{_BATCH}"
        )
    return {**shaping, **{name: begun[name] for name in _CUT}}


def _examples(shaping: Mapping[str, Any]) -> int:
    return math.prod(shaping[name] for name in _CUT)


def rescaled(settings: RunSettings, begun: Mapping[str, Any]) -> RunSettings:
    """Returns the settings by which these workers go on with a run.

    Args:
      settings: the flags.
      begun: what the run is shaped by, see `as_begun`; nothing if it is no run of the folder.
    """
    if not begun:
        return settings
    before, now = begun[WORKERS], collectives.size()
    batches = _examples(begun) // (now * settings.train_batch_size)
    scale = before / now if settings.scale_learning_rate else 1.0
    if before != now:
        tf.logging.info(
            "The run was begun by %d workers: with %d, each has %d batches a step",
            before,
            now,
            batches,
        )
    return settings.replaced(
        gradient_accumulation_steps=batches, learning_rate=settings.learning_rate * scale
    )
