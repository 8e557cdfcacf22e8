"""Measurements of a few batches, for `albert check --estimate`."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Mapping
from typing import NamedTuple

import tensorflow.compat.v1 as tf

from albert.checkpoints.checkpoint_files import list_checkpoints
from albert.distributed import collectives, exchange
from albert.preflight.report import Report
from albert.records import DEV, TEST, TRAIN
from albert.records.batches import Data
from albert.records.records import reading_records
from albert.settings.fields import TOO_LARGE
from albert.settings.run_settings import RunSettings
from albert.training.log_hook import format_seconds
from albert.training.plan import Steps
from albert.training.prediction import make_predictor
from albert.training.prepared import PreparedRun, take_folder
from albert.training.task import Task
from albert.training.trainer import train_run

# A measurement of batches of one kind ends after this many batches or this many seconds. After the
# first batch, their number is even, because a prediction computes two at a time.
_MOST_BATCHES = 3
_MOST_SECONDS = 300.0
_SCORING = {DEV: "scoring", TEST: "labeling"}


class BatchTime(NamedTuple):
    """The time that batches of one kind take.

    Attributes:
      first: seconds until the end of the first batch, in which the graph and the kernels are made.
      each: mean seconds of each later batch; those of the first one if there is no other.
    """

    first: float
    each: float

    @classmethod
    def of(cls, seconds: list[float]) -> BatchTime:
        """Returns the time per batch from the seconds of the first batches."""
        first, *later = seconds
        return cls(first, sum(later) / len(later) if later else first)

    def seconds(self, batches: int) -> float:
        """Returns the seconds that a number of batches take, including the first one."""
        return self.first + (batches - 1) * self.each


class _StopWatch(tf.train.SessionRunHook):
    """Times the first runs of a session and then ends it, at the same run on all workers."""

    def __init__(self):
        """Starts the clock; the time of the first run includes everything from here on."""
        self.seconds: list[float] = []
        self._began = time.perf_counter()

    def before_run(self, run_context) -> None:
        if self.seconds:
            self._began = time.perf_counter()

    def after_run(self, run_context, run_values) -> None:
        self.seconds.append(time.perf_counter() - self._began)
        if exchange.broadcast_object(_is_enough(self.seconds)):
            run_context.request_stop()


def _is_enough(seconds: list[float]) -> bool:
    return len(seconds) >= _MOST_BATCHES or sum(seconds) >= _MOST_SECONDS


def measure(task: Task, data: Mapping[str, Data]) -> dict[str, BatchTime]:
    """Trains and predicts a few batches in a temporary folder, on all workers, as the job would.

    Returns the time of a micro-batch in training and of a batch in prediction, by split.
    """
    # Without the log lines of the training.
    tf.logging.set_verbosity(tf.logging.WARN)
    with tempfile.TemporaryDirectory(prefix="albert-check-") as folder:
        # Writing checkpoints would only take time.
        changed = {"output_dir": folder, "export_dir": None, "save_checkpoints_steps": TOO_LARGE}
        timed = task.with_settings(task.settings.replaced(**changed))
        take_folder(timed)
        return {name: _pace(timed, name, one) for name, one in data.items()}


def _pace(task: Task, split: str, data: Data) -> BatchTime:
    """Trains or predicts a few batches, with initial weights."""
    if split == TRAIN:
        watch = _StopWatch()
        train_run(PreparedRun(task, {TRAIN: data}), more_hooks=[watch])
        return BatchTime.of(watch.seconds)
    seconds, began = list[float](), time.perf_counter()
    # In the order of the file, because the longest records are not typical.
    predictor = make_predictor(task, data, by_length=False)
    with reading_records(data.files), contextlib.closing(predictor):
        for _ in predictor.batches(None):
            seconds.append(time.perf_counter() - began)
            began += seconds[-1]
            if _is_enough(seconds):
                break
    # With many workers, some may have no batch. Rank 0, which reports, has the first one.
    return BatchTime.of(seconds or [0.0])


def describe_duration(
    report: Report,
    settings: RunSettings,
    steps: Steps | None,
    data: Mapping[str, Data],
    paces: Mapping[str, BatchTime],
) -> None:
    """Adds a row for each part of the job on these workers, and one for all of it."""
    workers, in_all = collectives.size(), 0.0
    with report.section("duration"):
        for name, pace in paces.items():
            if name == TRAIN:
                assert steps is not None, "a training has some"
                size, count = settings.train_batch_size, settings.gradient_accumulation_steps
                item, times, batches = "training", 1, steps.num_train_steps * count
                what = f"{steps.num_train_steps} steps of {size * count * workers} examples"
            else:
                size, records = settings.predict_batch_size, data[name].num_records
                item, times = _SCORING[name], _passes(settings, steps) if name == DEV else 1
                batches = -(-records // (size * workers))
                what = f"{times} x {records} features"
            seconds = times * pace.seconds(batches)
            rate = f"{size * workers / pace.each:.2f} per second"
            report.add(item, f"{format_seconds(seconds)}: {what}, {rate}")
            in_all += seconds
        report.add("whole job", f"{format_seconds(in_all)} from the start, on hosts like this one")


def _passes(settings: RunSettings, steps: Steps | None) -> int:
    """Returns the number of checkpoints to score, if the training does not end early."""
    if steps:
        return -(-steps.num_train_steps // settings.save_checkpoints_steps)
    return max(len(list_checkpoints(settings.output_dir)), 1)
