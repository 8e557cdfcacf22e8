"""The stages of a run: prepare, connect, train, score, label, export.

`run` takes the runs of a job from `prepared_runs`, one at a time, and calls `finish`:

- `job.begin_job` sets up the device and the log.
- `output_folder.py` takes the folder of the run, and `prepared.prepare` makes its feature files.
- `job.connect` joins the workers; nothing may fork after it.
- `trainer.train_run` restores the last checkpoint and calls the loop, `loop.py`; its
  `CheckpointScorer` computes the scores of each checkpoint, which `evaluation.py` records.
- `prediction.write_labels` labels the test data, and `export.export_best` exports the best model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tensorflow.compat.v1 as tf

from albert.core.processes import check_not_forked
from albert.distributed import collectives
from albert.records import DEV, TEST, TRAIN
from albert.settings.run_settings import RunSettings
from albert.training import job
from albert.training.export import export_best
from albert.training.prediction import write_labels
from albert.training.prepared import PreparedRun, prepare, take_folder
from albert.training.task import Task, create_task
from albert.training.tracking import tracking
from albert.training.trainer import CheckpointScorer, train_run, warn_if_not_learned


def run(task_class: type[Task], settings: RunSettings) -> None:
    """Runs a task; raises a `UserError` if flags, input or environment are not valid."""
    for _, one in prepared_runs(task_class, settings, {"": settings}):
        finish(one)


def prepared_runs(
    task_class: type[Task],
    settings: RunSettings,
    runs_of_job: Mapping[str, RunSettings] | None = None,
    also_prepare: Callable[[PreparedRun], None] = lambda run: None,
) -> Iterator[tuple[str, PreparedRun]]:
    """Yields the runs of a job by name, each to be finished before the next one.

    A process can join its MPI job only once, and everything that may fork comes before that: all
    runs are prepared before the first one is yielded. Raises a `UserError` if the flags, the input
    or the environment are not valid.

    Args:
      runs_of_job: the settings of each run, by name; None for those of `RunSettings.runs`.
      also_prepare: called with each run once its own data are prepared.
    """
    check_not_forked()
    job.begin_job(settings)
    settings.require(*task_class.required)
    # The flags of all runs are checked before a folder is made.
    tasks = {n: create_task(task_class, one) for n, one in (runs_of_job or settings.runs()).items()}
    for task in tasks.values():
        take_folder(task)
    runs, facts = dict[str, PreparedRun](), dict[str, Any]()
    for name in list(tasks):
        if name:
            tf.logging.info("%s: preparing the run", name)
        # The task and the data of a finished run only take memory.
        runs[name] = run = prepare(tasks.pop(name))
        also_prepare(run)
        facts |= {f"{name}, {fact}" if name else fact: run.facts[fact] for fact in run.facts}
        del run
    job.connect(facts, settings.stall_seconds)
    names = list(runs)
    for number, name in enumerate(names, start=1):
        if name:
            tf.logging.info("%s: run %d of %d", name, number, len(names))
        yield name, runs.pop(name)


def finish(run: PreparedRun) -> dict | None:
    """Trains, scores, labels and exports what the flags ask for, once the workers are connected.

    Returns the best checkpoint's entry, see `CheckpointScorer.score`.
    """
    data, best, is_chief = run.data, None, collectives.is_chief()
    scorer = CheckpointScorer(run) if DEV in data else None
    with tracking(run.settings, run.task.kind, is_chief) as start_tracking:
        if TRAIN in data:
            train_run(run, scorer, on_begin=start_tracking)
        else:
            start_tracking()
        if scorer:
            best = scorer.score()
        if TEST in data:
            write_labels(run.task, data[TEST], run.contents[TEST])
        if run.settings.export_dir and is_chief:
            export_best(run.task)
        if TRAIN in data and is_chief:
            warn_if_not_learned(run)
    return best
