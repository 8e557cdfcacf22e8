"""The spread of scores over runs that differ in their seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np


class Spread(NamedTuple):
    """The median, extremes and standard deviation (NaN for one run) of a score over some runs."""

    median: float
    lowest: float
    highest: float
    deviation: float


def spread_of_runs(runs: Sequence[Mapping[str, float]]) -> dict[str, Spread]:
    """Returns the spread of every score that all runs have, by name; needs at least one run."""
    names = [name for name in runs[0] if all(name in run for run in runs)]
    spreads = {}
    for name in names:
        values = np.array([run[name] for run in runs])
        # Of the population that the runs are a sample of.
        deviation = np.std(values, ddof=1) if len(values) > 1 else math.nan
        four = np.median(values), np.min(values), np.max(values), deviation
        spreads[name] = Spread(*map(float, four))
    return spreads
