"""The flags that a sweep varies, and their bounds."""

from __future__ import annotations

import math
from collections.abc import Callable
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


def make_space(settings: SweepSettings, of_task: RunSettings) -> Space:
    """Returns the search space; a flag of the task that the user set is not searched.

    Raises:
      FlagError: a range is invalid, contradicts a flag of the task, or nothing is left to search.
    """
    dimensions: dict[str, tuple[tuple[str, ...], Callable[[str, str], Range | Choice]]] = {
        "learning_rates": (("learning_rate",), _rates),
        "epochs": (("num_train_epochs", "train_steps"), _whole),
        "batch_sizes": (("train_batch_size",), _sizes),
        "seed_range": (("seed",), _whole),
    }
    space: Space = {}
    for name, (flags, parse) in dimensions.items():
        fixed = [flag for flag in flags if flag in of_task.given]
        if fixed and name in settings.given:
            raise FlagError(f"--{name} and --{fixed[0]} contradict each other; remove one")
        if not fixed:
            space[flags[0]] = parse(name, getattr(settings, name))
    if not space:
        raise FlagError("nothing to search: remove one of the flags that fix the search space")
    return space


def _rates(name: str, text: str) -> Range:
    low, high = _bounds(name, text, float)
    if not (low > 0 and math.isfinite(high)):
        raise FlagError(f"--{name}={text} must be positive numbers")
    return Range(low, high, is_whole=False)


def _whole(name: str, text: str) -> Range:
    low, high = _bounds(name, text, int)
    lowest = 0 if name == "seed_range" else 1
    if low < lowest or high >= TOO_LARGE:
        raise FlagError(f"--{name}={text} must be whole numbers from {lowest} to {TOO_LARGE - 1}")
    return Range(low, high)


def _bounds(name: str, text: str, parse: Callable[[str], float]) -> tuple[float, float]:
    numbers = _numbers(name, text, parse)
    if len(numbers) != 2:
        raise FlagError(f"--{name}={text} must be two numbers: the lowest and the highest")
    low, high = numbers
    if low > high:
        raise FlagError(f"--{name}={text}: the lowest number is above the highest; swap them")
    return low, high


def _sizes(name: str, text: str) -> Choice:
    sizes = _numbers(name, text, int)
    if not all(1 <= size <= LARGEST_BATCH for size in sizes) or len(set(sizes)) < len(sizes):
        raise FlagError(f"--{name}={text} must be different numbers from 1 to {LARGEST_BATCH}")
    return Choice(tuple(map(int, sizes)))


def _numbers(name: str, text: str, parse: Callable[[str], float]) -> list[float]:
    try:
        return [parse(number) for number in text.split(",")]
    except ValueError as e:
        kind = "whole numbers" if parse is int else "numbers"
        raise FlagError(f"--{name}={text} must be {kind} separated by commas") from e
