"""Scores of a run's checkpoints on the development set."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence

import tensorflow.compat.v1 as tf

from albert.checkpoints.checkpoint_files import BEST, keep_last, list_checkpoints
from albert.data import DEV, TRAIN
from albert.data.records import reading_records
from albert.distributed import collectives
from albert.report import PAGE
from albert.report.terminal import samples_at_end
from albert.training.evaluation import Evaluation
from albert.training.output_folder import (
    scoring_settings,
    warn_if_init_checkpoint_forgotten,
    write_assets_of,
)
from albert.training.prediction import Predictor, make_predictor
from albert.training.prepared import PreparedRun


class Scorer:
    """Scores the checkpoints of a run, during a training and after it, and keeps the best."""

    def __init__(self, run: PreparedRun):
        self._task, self._settings = run.task, run.settings
        self._data, self._contents = run.data[DEV], run.contents[DEV]
        self._trains = TRAIN in run.data

    @functools.cached_property
    def _predictor(self) -> Predictor:
        return make_predictor(self._task, self._data)

    def score(self) -> dict | None:
        """Scores checkpoints without scores; logs the best, and returns its entry on rank 0.

        After a training, keeps the best checkpoint and the last --keep_checkpoint_max.
        """
        evaluation = self._score_new()
        if evaluation is None:
            return None
        self._predictor.log_statistics()
        _report(self._settings.output_dir, evaluation.best, self._task.outputs)
        if PAGE in self._task.outputs:
            for line in samples_at_end(self._settings.output_dir):
                print(line, flush=True)
        # Repeated at the end for long and resumed runs. A prediction does not know how its weights
        # were initialized.
        if self._trains:
            warn_if_init_checkpoint_forgotten(self._settings)
        return evaluation.best

    def ends_training(self) -> bool:
        """Scores checkpoints without scores; returns on all workers whether --patience is over."""
        patience = self._settings.patience
        evaluation = self._score_new()
        is_over = bool(evaluation and patience and evaluation.since_best() >= patience)
        is_over = collectives.broadcast_object(is_over)
        if is_over:
            tf.logging.info("No better score in %d checkpoints: stopping the training", patience)
        return is_over

    def has_checkpoints(self) -> bool:
        """Returns on all workers whether the folder has a result to score."""
        folder = self._settings.output_dir
        return collectives.broadcast_object(
            collectives.is_chief()
            and (
                bool(list_checkpoints(folder))
                or os.path.exists(os.path.join(folder, f"{BEST}.index"))
            )
        )

    def _score_new(self) -> Evaluation | None:
        """Scores every checkpoint without scores; returns the evaluation on rank 0, else None."""
        data, predictor, folder = self._data, self._predictor, self._settings.output_dir
        with reading_records(data.files):
            if not collectives.is_chief():
                predictor.follow()
                return None
            evaluation = self._evaluation()
            evaluation.score_all(
                lambda checkpoint: self._task.score(data, predictor.outputs(checkpoint))
            )
            predictor.finish()
        if list_checkpoints(folder):
            # Written again, because the assets may contain scores.
            write_assets_of(self._task)
        if self._trains:
            keep_last(folder, self._settings.keep_checkpoint_max)
        return evaluation

    def _evaluation(self) -> Evaluation:
        key = self._task.score_key(self._data)
        if key is None:
            tf.logging.warning("There are no answers to compare with: computing no scores")
        settings = self._settings
        return Evaluation(
            settings.output_dir,
            key or "global_step",
            scoring_settings(self._task, self._contents),
            self._task.outputs,
            settings.init_checkpoint or None,
            settings.defaults(),
        )


def _report(output_dir: str, best: dict, outputs: Sequence[str]) -> None:
    """Logs the best checkpoint's scores and the names of the files."""
    tf.logging.info("Results in %s", output_dir)
    scores = {name: f"{value:.4g}" for name, value in best.items() if isinstance(value, float)}
    rows = {
        **scores,
        "checkpoint": f"{BEST} (step {best['global_step']})",
        "files": ", ".join([*outputs, "eval_results.json", "eval_results.txt"]),
    }
    for name, value in rows.items():
        tf.logging.info("  %-12s %s", name, value)
