"""The table of GLUE's tasks, with medians over seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import fmean
from typing import Any

from albert.core.text import aligned
from albert.training.spread import Spread, spread_of_runs

# The scores of each run by name, by task and seed.
Results = Mapping[str, Mapping[int, Mapping[str, float]]]

_ACCURACY = ("eval_accuracy",)
# The columns of the papers' tables in their order: tasks with the scores that the papers report.
_COLUMNS: dict[str, dict[str, tuple[str, ...]]] = {
    "MNLI-m/mm": {"mnli": _ACCURACY, "mismnli": _ACCURACY},
    "QNLI": {"qnli": _ACCURACY},
    "QQP": {"qqp": ("eval_accuracy", "f1")},
    "RTE": {"rte": _ACCURACY},
    "SST-2": {"sst-2": _ACCURACY},
    "MRPC": {"mrpc": ("eval_accuracy", "f1")},
    "CoLA": {"cola": ("matthew_corr",)},
    "STS-B": {"sts-b": ("pearson", "spearman")},
    "WNLI": {"wnli": _ACCURACY},
}


class Table:
    """The table of some results.

    Attributes:
      spreads: the spread of every score over the seeds, by task and name.
      medians: the medians in each column of the table that has results, by the column's header.
      average: the mean over the columns, of which each counts once. As on GLUE's leaderboard, the
        score of a column with two numbers is their mean (https://arxiv.org/abs/1804.07461).
    """

    def __init__(self, results: Results):
        """Computes the table; every task has results of at least one seed."""
        self._results = results
        self.spreads: dict[str, dict[str, Spread]] = {
            task: spread_of_runs([*by_seed.values()]) for task, by_seed in results.items()
        }
        self.medians: dict[str, list[float]] = {}
        for header, tasks in _COLUMNS.items():
            spreads = [self.spreads[t][name] for t in tasks if t in results for name in tasks[t]]
            if spreads:
                self.medians[header] = [spread.median for spread in spreads]
        self.average = fmean(map(fmean, self.medians.values()))

    def lines(self) -> list[str]:
        """Returns the headers and the medians, in percent, as two aligned lines."""
        columns = {**self.medians, "average": [self.average]}
        cells = ["/".join(f"{100 * score:.1f}" for score in column) for column in columns.values()]
        return aligned([[*columns], cells])

    def as_json(self) -> dict[str, Any]:
        """Returns the table as JSON values, with the scores of each run."""
        tasks = {
            task: {name: _without_nan(spread) for name, spread in spreads.items()}
            for task, spreads in self.spreads.items()
        }
        return {"average": self.average, "tasks": tasks, "by_seed": self._results}


def _without_nan(spread: Spread) -> dict[str, float]:
    """Returns a spread as JSON values, without the deviation if there is only one run."""
    return {name: value for name, value in spread._asdict().items() if not math.isnan(value)}
