"""The training of a run, the scores of its checkpoints, and signs that it has failed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from albert.checkpoints.checkpoint_files import BEST, keep_last, list_checkpoints, point_to_newest
from albert.distributed import collectives, exchange
from albert.records import DEV, TRAIN
from albert.records.records import reading_records
from albert.report import PAGE
from albert.report.predictions import read_samples
from albert.report.terminal import samples_at_end
from albert.training import metrics
from albert.training.evaluation import Evaluation
from albert.training.log_hook import StepMonitor
from albert.training.loop import make_estimator, train
from albert.training.output_folder import begin_run, scoring_settings, write_assets_of
from albert.training.plan import global_batch_size, rescale_to_current_workers
from albert.training.prediction import Predictor, make_predictor
from albert.training.prepared import PreparedRun
from albert.training.task import Task, scores_while_training
from albert.training.task_model import converted_model_fn

# With fewer examples, steps or log lines, chance could explain the sign.
_LEAST_EXAMPLES, _LEAST_STEPS, _LEAST_LINES = 20, 100, 6


class CheckpointScorer:
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
        self._predictor.close()
        if evaluation is None:
            return None
        best, folder, outputs = evaluation.best, self._settings.output_dir, self._task.outputs
        files = ", ".join([BEST, *outputs, "eval_results.json", "eval_results.txt"])
        tf.logging.info("Results of step %d in %s: %s", best["global_step"], folder, files)
        for name, value in best.items():
            if isinstance(value, float):
                tf.logging.info("  %-12s %.4g", name, value)
        if PAGE in outputs:
            for line in samples_at_end(folder):
                print(line, flush=True)
        return best

    def ends_training(self) -> bool:
        """Scores checkpoints without scores; returns on all workers whether --patience is over."""
        patience = self._settings.patience
        evaluation = self._score_new()
        is_over = bool(evaluation and patience and evaluation.since_best() >= patience)
        is_over = exchange.broadcast_object(is_over)
        if is_over:
            tf.logging.info("No better score in %d checkpoints: stopping the training", patience)
        return is_over

    def _score_new(self) -> Evaluation | None:
        """Scores every checkpoint without scores; returns the evaluation on rank 0, else None."""
        data, predictor, task = self._data, self._predictor, self._task
        folder = self._settings.output_dir
        with reading_records(data.files):
            if not collectives.is_chief():
                predictor.follow()
                return None
            settings = scoring_settings(task, self._contents)
            evaluation = Evaluation(self._settings, task.best_by, task.outputs, settings)
            evaluation.score_all(lambda name: task.score(data, predictor.outputs(name)))
            predictor.finish()
        if list_checkpoints(folder):
            # Written again, because the assets may contain scores.
            write_assets_of(task)
        if self._trains:
            keep_last(folder, self._settings.keep_checkpoint_max)
        return evaluation


def train_run(
    run: PreparedRun,
    scorer: CheckpointScorer | None = None,
    more_hooks: Sequence[tf.train.SessionRunHook] = (),
    on_begin: Callable[[], None] = lambda: None,
) -> None:
    """Trains the model of a run up to its last step, starting where an earlier run stopped.

    All workers must call this, once they are connected.

    Args:
      scorer: scores each checkpoint as it is written, if a flag asks for it.
      more_hooks: see `loop.train`.
      on_begin: called when the folder has the record of the run.
    """
    recorded = exchange.broadcast_object(dict(run.recorded))
    settings = rescale_to_current_workers(run.settings, recorded)
    task, data = run.task.with_settings(settings), run.data[TRAIN]
    scorer = scorer if scores_while_training(settings) else None
    num_steps, num_warmup_steps, *_ = steps = task.steps(data.num_examples)
    begun = _begin(task, recorded) if collectives.is_chief() else None
    done, has_results = exchange.broadcast_object(begun)
    on_begin()
    if done >= num_steps:
        tf.logging.info("Training is already complete: step %d of %d", done, num_steps)
        return
    # Score the checkpoints that a stopped run left without scores; the scores may end the training.
    if scorer and has_results and scorer.ends_training():
        return
    size = global_batch_size(settings)
    tf.logging.info(
        "Training from step %d to %d, %d of them warmup, global batch size %d",
        done,
        num_steps,
        num_warmup_steps,
        size,
    )
    monitor = StepMonitor()
    model_fn = monitor.watching(converted_model_fn(task, steps))
    estimator = make_estimator(model_fn, settings)
    ends_training = scorer.ends_training if scorer else None
    with reading_records(data.files):
        order = data.training_order(size, settings.seed)
        if order:
            order.log(num_steps)
        start_batch = done * settings.gradient_accumulation_steps * collectives.size()
        input_fn = data.input_fn(settings.train_batch_size, settings.seed, start_batch, order)
        train(estimator, monitor, input_fn, settings, num_steps, ends_training, more_hooks)


def _begin(task: Task, recorded: dict[str, Any]) -> tuple[int, bool]:
    """Records the run; returns the number of completed steps, and whether there is a result."""
    folder = task.settings.output_dir
    begin_run(task, recorded)
    write_assets_of(task)
    done = point_to_newest(folder)
    metrics.keep_until(folder, done)
    return done, bool(list_checkpoints(folder))


def warn_if_not_learned(run: PreparedRun) -> None:
    """Logs a warning if a training has failed; only for rank 0 and a run that trains."""
    folder, signs = run.settings.output_dir, list[str]()
    if DEV in run.data and PAGE in run.task.outputs:
        signs += _answer_to_all(folder)
    signs += _loss_that_did_not_fall(folder)
    if signs:
        tf.logging.warning(
            "The model has not learned its task: %s; train again with a lower --learning_rate, "
            "more warm-up or --optimizer=adamw_corrected, in another --output_dir",
            " and ".join(signs),
        )


def _answer_to_all(folder: str) -> Iterator[str]:
    """Yields the sign that all predictions are the same, although the true labels are not."""
    answers, truths = set[str](), list[str]()
    for sample in read_samples(folder):
        answers.add(str(sample["answer"]))
        truths.append(str(sample.get("truth")))
        if len(answers) > 1:
            return
    if len(truths) >= _LEAST_EXAMPLES and len({*truths}) > 1:
        yield f"it labels all {len(truths)} examples of the development set {answers.pop()}"


def _loss_that_did_not_fall(folder: str) -> Iterator[str]:
    """Yields the sign that the loss of log lines was as high at the end as at the beginning."""
    lines = [line for line in metrics.read(folder) if line["kind"] == metrics.TRAINING]
    losses = [line["loss"] for line in lines if line.get("loss") is not None]
    if len(losses) < _LEAST_LINES or lines[-1]["step"] < _LEAST_STEPS:
        return
    third = len(losses) // 3
    first, last = np.mean(losses[:third]), np.mean(losses[-third:])
    if last >= first:
        yield f"its loss did not fall, from {first:.4f} to {last:.4f} on average"
