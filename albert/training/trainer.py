"""The training of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow.compat.v1 as tf

from albert.checkpoints.checkpoint_files import point_to_newest
from albert.data import TRAIN
from albert.data.records import reading_records
from albert.distributed import collectives
from albert.training import metrics
from albert.training.hooks import StepMonitor
from albert.training.loop import make_estimator, train
from albert.training.output_folder import write_assets_of
from albert.training.plan import rescale_to_current_workers, training_plan
from albert.training.prepared import PreparedRun, scores_while_training
from albert.training.run_record import begin_run
from albert.training.scorer import Scorer


class Trainer:
    """Trains the model of a run up to its last step, starting where an earlier run stopped."""

    def __init__(
        self,
        run: PreparedRun,
        scorer: Scorer | None = None,
        more_hooks: Sequence[tf.train.SessionRunHook] = (),
    ):
        """Determines the steps; all workers must call this, once they are connected.

        Args:
          scorer: scores each checkpoint as it is written, if a flag asks for it.
          more_hooks: see `loop.train`.
        """
        begun = collectives.broadcast_object(dict(run.recorded))
        settings = rescale_to_current_workers(run.settings, begun)
        self._task, self._settings = run.task.with_settings(settings), settings
        self._data, self._recorded = run.data[TRAIN], begun
        self._scorer = scorer if scores_while_training(settings) else None
        self._more_hooks = more_hooks
        self._steps = self._task.steps(self._data.num_examples)
        self._plan = training_plan(settings, self._steps[0])

    def train(self, on_begin: Callable[[], None] = lambda: None) -> None:
        """Trains; calls `on_begin` when the folder has the record of the run."""
        plan, scorer = self._plan, self._scorer
        done = collectives.broadcast_object(self._begin() if collectives.is_chief() else None)
        on_begin()
        if done >= plan.num_steps:
            tf.logging.info("Training is already complete: step %d of %d", done, plan.num_steps)
            return
        # Score the checkpoints that a stopped run left without scores; the scores may end the
        # training.
        if scorer and scorer.has_checkpoints() and scorer.ends_training():
            return
        tf.logging.info(
            "Training from step %d to %d, %d of them warmup, global batch size %d",
            done,
            *self._steps,
            plan.global_batch_size,
        )
        monitor, settings = StepMonitor(), self._settings
        model_fn = monitor.watching(self._task.converted_model_fn(self._steps))
        estimator = make_estimator(
            model_fn, settings.output_dir, settings.seed, settings.enable_scoped_allocator
        )
        ends_training = scorer.ends_training if scorer else None
        with reading_records(self._data.files):
            train(estimator, monitor, self._input_fn(done), plan, ends_training, self._more_hooks)

    def _begin(self) -> int:
        """Records the run and returns the number of completed steps."""
        settings, task = self._settings, self._task
        folder, overwrites = settings.output_dir, settings.overwrite_output_dir
        outputs = task.files_of_results()
        begin_run(folder, self._recorded, settings.defaults(), outputs, overwrites, task.kind)
        write_assets_of(task)
        done = point_to_newest(folder)
        metrics.keep_until(folder, done)
        return done

    def _input_fn(self, done: int) -> Callable[[], tf.data.Dataset]:
        """Returns this worker's batches after a number of completed steps."""
        settings, data, plan = self._settings, self._data, self._plan
        order = data.training_order(plan.global_batch_size, settings.seed)
        if order:
            order.log(plan.num_steps)
        start_batch = done * plan.micro_batches * collectives.size()
        return data.input_fn(settings.train_batch_size, settings.seed, start_batch, order)
