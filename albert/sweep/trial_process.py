"""Runs a trial: the task's command in a separate process, whose scores are followed."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from albert.core import signals
from albert.training import metrics

_SECONDS_BETWEEN = 1.0


class Score(NamedTuple):
    """The score of a checkpoint, counted from 1, that selects the best one; NaN if not finite."""

    number: int
    step: int
    name: str
    value: float


def scores_in(folder: str) -> list[Score]:
    """Returns the scores of a run's checkpoints, in the order of their steps."""
    lines = [
        line
        for line in metrics.read(folder)
        # Without true answers there are no scores, and the last checkpoint counts as the best.
        if line["kind"] == metrics.SCORES and line["best_by"] in line
    ]
    lines.sort(key=lambda line: line["step"])
    return [
        Score(number, line["step"], name, float("nan") if line[name] is None else line[name])
        for number, line in enumerate(lines, start=1)
        for name in [line["best_by"]]
    ]


def run_trial(
    command: Sequence[str], folder: str, log_file: str, wants_end: Callable[[Score], bool]
) -> int | None:
    """Runs a trial's command to its end; returns its exit code, or None if it was ended early.

    The command writes `metrics.jsonl` into the folder; its output is appended to the log file.
    `wants_end` is called with each score as soon as it is written; returns whether to end it.
    Raises a `Stopped` if a signal came, after the trial has saved its state.
    """
    seen = 0
    with open(log_file, "ab") as log, _process(command, log.fileno()) as process:
        is_running = True
        while is_running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_SECONDS_BETWEEN)
            is_running = process.poll() is None
            if number := signals.deferred():
                signals.acknowledge()
                _end(process)
                raise signals.Stopped(number, f" in {folder}, which is saved")
            scores = scores_in(folder)
            ends = [wants_end(score) for score in scores[seen:]]
            seen = len(scores)
            # It may have ended in the meantime; then it is complete.
            if any(ends) and process.poll() is None:
                _end(process)
                return None
        return process.returncode


@contextlib.contextmanager
def _process(command: Sequence[str], log: int) -> Iterator[subprocess.Popen]:
    """Starts a process, which ends when the block or this process ends."""
    # In a separate session, a terminal's Ctrl-C reaches only this process, which passes it on once.
    follow = functools.partial(signals.follow_parent, os.getpid(), signal.SIGTERM)
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
        preexec_fn=follow,
    ) as process:
        try:
            yield process
        finally:
            _end(process)


def _end(process: subprocess.Popen) -> None:
    """Ends a process after its training step, if it runs, and waits for it."""
    if process.poll() is None:
        process.terminate()
    process.wait()
