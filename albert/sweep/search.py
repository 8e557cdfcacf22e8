"""The search of a sweep: trains a task repeatedly, with Optuna's choices of some flags."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from albert.checkpoints.model_folder import RECORD
from albert.core import locks
from albert.core.errors import FlagError, UserError
from albert.core.files import (
    command,
    make_writable_folder,
    open_atomically,
    read_bytes,
    write_json,
)
from albert.core.log import LOG
from albert.core.record import differences, read_record
from albert.core.text import aligned
from albert.data import DEV, TRAIN
from albert.report.scatter import Point, write_scatter
from albert.settings.fields import Affects, argument
from albert.settings.run_settings import RunSettings
from albert.sweep.space import Choice, Range, Space, SweepSettings
from albert.sweep.study import COMPLETE, FAILED, PRUNED, Study, Trial, TrialResult
from albert.sweep.trial_process import Score, run_trial, scores_in
from albert.training.job import fetch_missing
from albert.training.output_folder import training_settings
from albert.training.task import Task

TABLE, FIGURE = "trials.tsv", "trials.svg"
_RECORD = "sweep.json"
_VERSION = 1


def _values(record: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Returns the values of a record by name; a flag is in one of its parts."""
    return {**record["settings"], **record["space"], **record["sweep"]}


class Sweep:
    """The trials in a folder."""

    def __init__(
        self,
        task_class: type[Task],
        words: list[str],
        settings: RunSettings,
        options: SweepSettings,
        space: Space,
    ):
        """Checks the task's flags and data; raises a `UserError` that a trial would raise, too.

        `words` are the command that trains the task, without `albert` and without flags.
        """
        self._words, self._options, self._space = words, options, space
        self._folder = settings.output_dir
        self._settings = settings = trial_settings(settings, task_class.done_by)
        settings.require(*task_class.required)
        fetch_missing(task_class, settings)
        self._task: Task = task_class(settings)
        self._num_examples = self._task.split(TRAIN).num_examples()
        # Raises an error if the shortest trial has no step.
        bounds = space.items()
        shortest = {n: max(b.values) if isinstance(b, Choice) else b.low for n, b in bounds}
        self._num_steps(shortest)

    def _num_steps(self, flags: dict[str, Any]) -> int:
        """Returns the training steps of a trial."""
        task = self._task.with_settings(self._settings.replaced(**flags))
        return task.steps(self._num_examples)[0]

    def take_folder(self) -> None:
        """Locks the folder; raises a `FlagError` if it holds a run or another sweep."""
        folder = self._folder
        make_writable_folder(folder, "--output_dir")
        locks.hold_until_exit(os.path.join(folder, "sweep"), f"--output_dir {folder}")
        if os.path.exists(os.path.join(folder, RECORD)):
            raise FlagError(f"--output_dir {folder} holds a run; give another one to the sweep")
        path, ours = os.path.join(folder, _RECORD), self._identity()
        known = read_record(path, "the record of the sweep", *ours)
        if known is None:
            write_json(path, {**ours, "version": _VERSION})
            return
        # Records of earlier versions lack newer flags.
        earlier = self._settings.defaults()
        if different := differences(_values(known), _values(ours), earlier):
            raise FlagError(
                f"--output_dir {folder} holds a sweep with other values of "
                f"{', '.join(map(str, different))}; give another --output_dir"
            )

    def _identity(self) -> dict[str, dict[str, Any]]:
        """Returns everything that the scores of this sweep depend on."""
        task, space = self._task, self._space
        settings = {
            **task.identity(),
            **training_settings(task, task.contents(TRAIN)),
            **task.settings.affecting(Affects.SCORES),
            **task.contents(DEV),
        }
        options = ("checkpoints", "sweep_seed")
        identity = {
            "settings": {name: settings[name] for name in settings if name not in space},
            "space": {name: bounds._asdict() for name, bounds in space.items()},
            "sweep": {name: getattr(self._options, name) for name in options},
        }
        # As after reading it.
        return json.loads(json.dumps(identity))

    def run(self) -> None:
        """Runs trials until their number is that of --trials."""
        options = self._options
        self._study = Study(self._folder, self._space, options.sweep_seed, options.prune)
        while (trial := self._study.next(options.trials)) is not None:
            self._run(trial)
            self._write()
        # A sweep may have been killed before it wrote them.
        self._write()

    def _run(self, trial: Trial) -> None:
        name = folder_of(trial.number)
        folder = os.path.join(self._folder, name)
        flags = " ".join(argument(flag, value) for flag, value in trial.flags.items())
        LOG.info("Trial %d of %d: %s", trial.number + 1, self._options.trials, flags)

        def wants_end(score: Score) -> bool:
            prunes = trial.report(score.number, score.value)
            LOG.info("%s: step %d  %s %.4g", name, score.step, score.name, score.value)
            return prunes

        log_file = f"{folder}.log"
        code = run_trial(self._command(trial, folder), folder, log_file, wants_end)
        scores = [score.value for score in scores_in(folder) if not math.isnan(score.value)]
        if code is None:
            trial.end(PRUNED)
            LOG.info("%s: pruned, because its scores are below the median", name)
        elif code:
            trial.end(FAILED)
            with open(log_file, encoding="utf-8", errors="replace") as file:
                _, _, last_line = file.read().rstrip().rpartition("\n")
            LOG.warning("%s failed with exit code %d: %s", name, code, last_line)
        elif not scores:
            raise UserError(
                f"{folder} has no scores: the data to score on has no true answers, or all outputs "
                "of the model are NaN"
            )
        else:
            trial.end(COMPLETE, max(scores))

    def _command(self, trial: Trial, folder: str) -> list[str]:
        settings = self._settings
        changed = {"output_dir": folder, "evaluate_while_training": True, **trial.flags}
        if "save_checkpoints_steps" not in settings.given:
            steps, number = self._num_steps(trial.flags), self._options.checkpoints
            changed["save_checkpoints_steps"] = -(-steps // number)
        trial_flags = settings.replaced(given=settings.given | changed.keys(), **changed)
        return command(*self._words, *trial_flags.arguments())

    def _write(self) -> None:
        results = self._study.results()
        write_results(self._folder, results, self._space, self._score_name())

    def _score_name(self) -> str:
        """Returns the name of the score that selects the best checkpoint."""
        for result in self._study.results():
            for score in scores_in(os.path.join(self._folder, folder_of(result.number))):
                return score.name
        return "score"

    def report(self) -> None:
        """Prints the trials and the best one; raises a `UserError` if all trials failed."""
        results, name = self._study.results(), self._score_name()
        completed = [result for result in results if result.state == COMPLETE]
        if not completed:
            raise UserError(
                f"all {len(results)} trials failed; {self._folder}/{folder_of(0)}.log says why"
            )
        # The best trial comes first, of equal ones the earliest.
        order = sorted(results, key=lambda r: (r.state != COMPLETE, -(r.score or -math.inf)))
        print("\n".join(aligned(_rows(order, self._space, name))))
        best = max(completed, key=lambda result: result.score or 0.0)
        print(f"\nbest: {name} {best.score:.6g} in {self._folder}/{folder_of(best.number)}")
        print(f"all trials: {self._folder}/{TABLE} and {FIGURE}", flush=True)


def trial_settings(settings: RunSettings, done_by: Mapping[str, str]) -> RunSettings:
    """Returns the flags of all trials: those of the user, and those that a sweep sets.

    `done_by` is that of the task.
    """
    flags = settings.flags()
    for name in (done_by[TRAIN], done_by[DEV]):
        if name in settings.given and not getattr(settings, name):
            raise FlagError(f"--{name}=false does not work in a sweep; remove it")
        settings = settings.replaced(given=settings.given | {name}, **{name: True})
    settings = settings.sharing_features(settings.output_dir)
    if "keep_checkpoint_max" in flags.keys() - settings.given:
        given = settings.given | {"keep_checkpoint_max"}
        settings = settings.replaced(given=given, keep_checkpoint_max=1)
    return settings


def folder_of(number: int) -> str:
    """Returns the name of a trial's folder."""
    return f"trial-{number:03}"


def write_results(folder: str, results: Sequence[TrialResult], space: Space, score: str) -> None:
    """Writes the table and, if a trial has a score, the figure; not if the table stays the same."""
    path = os.path.join(folder, TABLE)
    text = "".join("\t".join(row) + "\n" for row in _rows(results, space, score))
    if os.path.exists(path) and read_bytes(path) == text.encode():
        return
    points = [
        Point(f"{folder_of(r.number)}: {r.score:.4g}", r.score, r.flags, r.state == COMPLETE)
        for r in results
        if r.state in (COMPLETE, PRUNED) and r.score is not None and math.isfinite(r.score)
    ]
    if points:
        scales = {n: isinstance(b, Range) and not b.is_whole for n, b in space.items()}
        write_scatter(os.path.join(folder, FIGURE), points, scales, score)
    # Last, because a table with this content asserts that the figure is written.
    with open_atomically(path) as file:
        file.write(text)


def _rows(results: Sequence[TrialResult], space: Space, score: str) -> Iterator[list[str]]:
    yield ["folder", "state", score, *space]
    for result in results:
        value = "" if result.score is None else f"{result.score:.6g}"
        flags = [f"{result.flags[name]:g}" if name in result.flags else "" for name in space]
        yield [folder_of(result.number), result.state, value, *flags]
