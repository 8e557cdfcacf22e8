"""Runs several tasks of GLUE with one or more seeds, and summarizes their scores in a table.

All runs share this process: the features of all of them are made first.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from statistics import fmean
from typing import Any, cast

import tensorflow.compat.v1 as tf

from albert.core.files import copy_atomically, write_json
from albert.core.text import aligned
from albert.distributed import collectives, exchange
from albert.settings.run_settings import REFERENCE
from albert.tasks.glue.settings import GlueSettings
from albert.tasks.glue.task import GlueTask
from albert.tasks.glue.tasks import PROCESSORS
from albert.training.output_folder import checkpoint_to_use
from albert.training.prepared import PreparedRun, prepare, take_folder
from albert.training.run import finish, prepared_runs
from albert.training.spread import spread_of_runs
from albert.training.task import requested_inputs

# The file of the table, and the folder of the files to submit to GLUE.
TABLE, SUBMISSION = "glue_results.json", "submission"
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


def run_benchmark(settings: GlueSettings) -> None:
    """Runs the tasks of --task_name with the seeds of --seeds, and prints the table.

    Raises a `UserError` if the flags, the input or the environment is invalid.
    """
    jobs = prepared_runs(GlueTask, settings, also_prepare=_prepare_follow_ups)
    results: dict[str, dict[int, dict[str, float]]] = {}
    for finished, (name, run) in enumerate(jobs, start=1):
        one = cast(GlueSettings, run.settings)
        for task, scores in _finish(name, one, run).items():
            results.setdefault(task, {})[one.seed] = scores
        if results:
            counts = {"finished_runs": finished, "runs": len(settings.runs())}
            record = {**counts, **as_json(results)}
            write_json(os.path.join(settings.output_dir, TABLE), record)
        if one.do_predict and collectives.is_chief():
            seed_folder = os.path.basename(one.output_dir) if settings.seeds else ""
            _submit(one, os.path.join(settings.output_dir, SUBMISSION, seed_folder))
    if results:
        medians = f", medians of {len(settings.seeds)} seeds" if settings.seeds else ""
        print(f"GLUE, development sets{medians}:", *table_lines(results), sep="\n", flush=True)


def _prepare_follow_ups(run: PreparedRun) -> None:
    for one in cast(GlueSettings, run.settings).follow_ups():
        # Without a check of the model, which does not exist before the run is trained. Some have
        # no data that a recipe could look at, or weights of labels.
        others = {"evaluate_while_training": False, "patience": 0, "class_weights": None}
        task = GlueTask(one.replaced(do_train=True, recipe=REFERENCE, **others))
        for split in requested_inputs(GlueTask, one):
            task.split(split).prepared()


def _finish(name: str, settings: GlueSettings, run: PreparedRun) -> dict[str, dict[str, float]]:
    """Finishes a run, then its follow-ups; returns their scores by task, only on rank 0."""
    best = {settings.task_name: finish(run)}
    for one in settings.follow_ups():
        tf.logging.info("%s: using the model for %s", name, one.task_name)
        # The other ranks get the weights from rank 0.
        initial = checkpoint_to_use(settings) if collectives.is_chief() else ""
        task = GlueTask(one.replaced(init_checkpoint=initial))
        take_folder(task)
        run = prepare(task)
        exchange.check_equal_on_all_workers(run.facts)
        best[one.task_name] = finish(run)
    return {
        task.lower(): {name: value for name, value in scores.items() if isinstance(value, float)}
        for task, scores in best.items()
        if scores
    }


def _submit(settings: GlueSettings, folder: str) -> None:
    """Copies the labels of a run and its follow-ups under the names that GLUE expects."""
    os.makedirs(folder, exist_ok=True)
    for one in (settings, *settings.follow_ups()):
        labels = os.path.join(one.output_dir, GlueTask.label_outputs[1])
        submission = PROCESSORS[one.task_name.lower()].submission
        copy_atomically(labels, os.path.join(folder, submission))


def medians_of(results: Results) -> dict[str, list[float]]:
    """Returns the medians in each column of the table that has results, and their average.

    For the average, each column counts once. As on GLUE's leaderboard, the score of a column with
    two numbers is their mean (https://arxiv.org/abs/1804.07461).
    """
    medians = dict[str, list[float]]()
    for header, tasks in _COLUMNS.items():
        spreads = {t: spread_of_runs([*results[t].values()]) for t in tasks if t in results}
        if spreads:
            medians[header] = [spreads[t][name].median for t in spreads for name in tasks[t]]
    return {**medians, "average": [fmean(map(fmean, medians.values()))]}


def table_lines(results: Results) -> list[str]:
    """Returns the headers and the medians, in percent, as two aligned lines."""
    medians = medians_of(results)
    cells = ["/".join(f"{100 * score:.1f}" for score in column) for column in medians.values()]
    return aligned([[*medians], cells])


def as_json(results: Results) -> dict[str, Any]:
    """Returns the spreads of all scores and the average as JSON values, with those of each run."""
    tasks: dict[str, dict[str, dict[str, float]]] = {}
    for task, by_seed in results.items():
        for name, spread in spread_of_runs([*by_seed.values()]).items():
            # A single run has no deviation.
            known = {n: v for n, v in spread._asdict().items() if not math.isnan(v)}
            tasks.setdefault(task, {})[name] = known
    return {"average": medians_of(results)["average"][0], "tasks": tasks, "by_seed": results}
