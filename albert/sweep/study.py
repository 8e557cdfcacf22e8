"""The trials of a sweep, in a file of Optuna; the only module that imports it.

The file is a journal, to which Optuna appends lines. It can be read while the sweep runs, for
example by optuna-dashboard.
"""

from __future__ import annotations

import contextlib
import math
import os
from typing import Any, NamedTuple

from albert.sweep.space import MOST_TRIALS, Range, Space

JOURNAL = "study.log"
_NAME = "albert sweep"
COMPLETE, PRUNED, FAILED, RUNNING = "complete", "pruned", "failed", "running"


class TrialResult(NamedTuple):
    """A trial as the tables show it; `number` counts from 0, and `state` is one of the constants.

    `score` is its best one; for a pruned trial the last one; None if it has none.
    """

    number: int
    state: str
    score: float | None
    flags: dict[str, float]


class Study:
    """The trials in a folder; the caller must have locked the folder."""

    def __init__(self, folder: str, space: Space, seed: int, prunes: bool):
        """Opens the study, or begins it; `prunes`: whether trials with low scores are pruned.

        A trial's flags depend on `seed` and the earlier trials, so a resumed sweep makes the same
        trials as an uninterrupted one.
        """
        import optuna
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._optuna, self._space, self._seed = optuna, space, seed
        path = os.path.join(folder, JOURNAL)
        _remove_leftovers(path)
        self._storage = JournalStorage(JournalFileBackend(path))
        pruner = optuna.pruners.MedianPruner() if prunes else optuna.pruners.NopPruner()
        self._study = optuna.create_study(
            storage=self._storage,
            study_name=_NAME,
            direction="maximize",
            pruner=pruner,
            load_if_exists=True,
        )

    def results(self) -> list[TrialResult]:
        """Returns all trials in their order."""
        states = self._optuna.trial.TrialState
        names = {states.COMPLETE: COMPLETE, states.PRUNED: PRUNED, states.FAIL: FAILED}
        return [
            TrialResult(t.number, names.get(t.state, RUNNING), t.value, self._flags(t.params))
            for t in self._study.get_trials(deepcopy=False)
        ]

    def next(self, count: int) -> Trial | None:
        """Returns the trial that a killed sweep did not end, or a new one; None after `count`."""
        results = self.results()
        running = [result.number for result in results if result.state == RUNNING]
        number = running[0] if running else len(results)
        if number >= count:
            return None
        if not running:
            self._add(number)
        study_id = self._storage.get_study_id_from_name(_NAME)
        trial_id = self._storage.get_trial_id_from_study_id_trial_number(study_id, number)
        trial = self._optuna.trial.Trial(self._study, trial_id)
        return Trial(self._study, trial, self._flags(trial.params))

    def _add(self, number: int) -> None:
        """Adds a trial with its flags, a function of the seed and the earlier trials."""
        # A line of the journal has all flags. `ask` would write a line for each, and a sweep that
        # was killed in between would continue with another state of the sampler.
        # Seeded by the number, because the state of a sampler is lost when a sweep is killed.
        sampler = self._optuna.samplers.TPESampler(seed=MOST_TRIALS * self._seed + number)
        copy = self._optuna.create_study(direction="maximize", sampler=sampler)
        copy.add_trials(self._study.get_trials(deepcopy=False))
        trial = copy.ask()
        for name, bounds in self._space.items():
            if not isinstance(bounds, Range):
                trial.suggest_categorical(name, bounds.values)
            elif bounds.is_whole:
                trial.suggest_int(name, int(bounds.low), int(bounds.high))
            else:
                trial.suggest_float(name, bounds.low, bounds.high, log=True)
        self._study.add_trial(copy.get_trials(deepcopy=False)[number])

    def _flags(self, parameters: dict[str, float]) -> dict[str, float]:
        """Returns the values of the flags, with three digits, so that they can be typed."""
        flags = dict(parameters)
        for name, value in parameters.items():
            bounds = self._space[name]
            if isinstance(bounds, Range) and not bounds.is_whole:
                flags[name] = min(max(float(f"{value:.3g}"), bounds.low), bounds.high)
        return flags


class Trial:
    """A trial that runs, with its number, from 0, and the values of the flags by name."""

    def __init__(self, study: Any, trial: Any, flags: dict[str, float]):
        """Wraps a trial of an Optuna study."""
        self._study, self._trial = study, trial
        self.number, self.flags = trial.number, flags

    def report(self, number: int, score: float) -> bool:
        """Reports the score of checkpoint `number`, from 1; returns whether to prune the trial."""
        known = self._study.get_trials(deepcopy=False)[self.number].intermediate_values
        if number not in known:
            self._trial.report(score, number)
        return bool(self._trial.should_prune())

    def end(self, state: str, score: float | None = None) -> None:
        """Ends the trial; without a finite score, a complete trial has failed."""
        from optuna.trial import TrialState

        if state == COMPLETE and score is not None and math.isfinite(score):
            self._study.tell(self.number, score)
        else:
            result = TrialState.PRUNED if state == PRUNED else TrialState.FAIL
            self._study.tell(self.number, state=result)


def _remove_leftovers(path: str) -> None:
    """Removes what a killed sweep has left: Optuna's lock, and a line without its end."""
    with contextlib.suppress(FileNotFoundError):
        os.remove(f"{path}.lock")
    with contextlib.suppress(FileNotFoundError), open(path, "rb+") as file:
        file.truncate(file.read().rfind(b"\n") + 1)
