"""The flags that a sweep varies, and their bounds."""

from __future__ import annotations

import sys
from typing import NamedTuple

from albert.core.errors import FlagError
from albert.settings.fields import LARGEST_BATCH, TOO_LARGE, Settings, setting
from albert.settings.run_settings import RunSettings

MOST_TRIALS = 100000


class Range(NamedTuple):
    """Numbers between two bounds, both inclusive: whole ones, or real ones with uniform logs."""

    low: float
    high: float
    is_whole: bool = True


class Choice(NamedTuple):
    """A few numbers."""

    values: tuple[int, ...]


# By the name of the flag.
Space = dict[str, Range | Choice]
# The flags of the task that fix what a flag of the sweep searches, beginning with the searched one.
_FLAGS = {
    "learning_rates": ("learning_rate",),
    "epochs": ("num_train_epochs", "train_steps"),
    "batch_sizes": ("train_batch_size",),
    "seed_range": ("seed",),
}


class SweepSettings(Settings):
    """The number of trials, and the search space."""

    trials: int = setting(
        20,
        "Number of trials, including those of earlier calls. Repeat the command with a larger "
        "number to extend a sweep.",
        lower=1,
        upper=MOST_TRIALS,
    )
    learning_rates: str = setting(
        "1e-5,1e-4", "Lowest and highest --learning_rate; their logarithms are searched uniformly."
    )
    epochs: str = setting("2,5", "Lowest and highest --num_train_epochs, whole numbers.")
    batch_sizes: str = setting("16,32", "Values of --train_batch_size.")
    seed_range: str = setting("1,5", "Lowest and highest --seed.")
    checkpoints: int = setting(
        4,
        "Number of checkpoints that each trial scores, at equal distances. After each of them, a "
        "trial may be pruned. Has no effect with --save_checkpoints_steps.",
        lower=1,
        upper=1000,
    )
    prune: bool = setting(
        True,
        "End a trial whose best score so far is below the median of the earlier trials at the same "
        "checkpoint. The first five completed trials are never pruned.",
    )
    sweep_seed: int = setting(0, "Seed for the search.", lower=0, upper=10000)


def make_space(settings: SweepSettings, task_settings: RunSettings) -> Space:
    """Returns the space, without flags that the user set; raises a `FlagError` if it is invalid."""
    space: Space = {}
    for name, flags in _FLAGS.items():
        fixed = [flag for flag in flags if flag in task_settings.given]
        if fixed and name in settings.given:
            raise FlagError(f"--{name} and --{fixed[0]} contradict each other; remove one")
        if not fixed:
            space[flags[0]] = _parsed(name, getattr(settings, name))
    if not space:
        raise FlagError("nothing to search: remove one of the flags that fix the search space")
    return space


def _parsed(name: str, text: str) -> Range | Choice:
    is_whole, is_range = name != "learning_rates", name != "batch_sizes"
    lowest = {"learning_rates": sys.float_info.min, "seed_range": 0}.get(name, 1)
    highest = TOO_LARGE - 1 if is_range else LARGEST_BATCH
    try:
        numbers = [int(number) if is_whole else float(number) for number in text.split(",")]
    except ValueError:
        numbers = []
    fits = numbers and all(lowest <= number <= highest for number in numbers)
    if is_range and fits and len(numbers) == 2 and numbers[0] <= numbers[1]:
        return Range(numbers[0], numbers[1], is_whole)
    if not is_range and fits and len(set(numbers)) == len(numbers):
        return Choice(tuple(map(int, numbers)))
    kind = f"whole numbers from {lowest} to {highest}" if is_whole else "positive numbers"
    form = f"two {kind}: the lowest and the highest" if is_range else f"different {kind}"
    raise FlagError(f"--{name}={text} must be {form}")
