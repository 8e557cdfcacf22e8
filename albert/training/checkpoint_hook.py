"""A hook that saves checkpoints, and ends a training when a signal asks for it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import tensorflow.compat.v1 as tf

from albert.checkpoints.checkpoint_files import RESULT, RESUME, keep_last, save_checkpoint
from albert.checkpoints.sharded_state import ShardedState
from albert.core import signals
from albert.distributed import collectives
from albert.settings.run_settings import RunSettings
from albert.training.plan import checkpoints_to_keep

# After a signal, the program waits this long for a step to end, plus the time that steps take.
_PATIENCE_SECONDS = 15.0
# The allowance for the first run of the session, whose duration is unknown.
_FIRST_RUN_SECONDS = 60.0


class SaveCheckpoints(tf.train.SessionRunHook):
    """Saves checkpoints, and ends the training after the step in which a signal arrives.

    Writes `model.ckpt-N`, a result, every --save_checkpoints_steps and after the last step. Writes
    `resume.ckpt-N`, from which a run resumes, when --save_checkpoints_minutes have passed since the
    last checkpoint of either kind, or when a signal ends the training. Every worker needs this
    hook, so that all learn in the same step that rank 0's clock or any worker's signal asks for a
    checkpoint. Rank 0 writes it.
    """

    def __init__(
        self,
        folder: str,
        last_step: int,
        settings: RunSettings,
        after_result: Callable[[], bool] | None = None,
        state: ShardedState | None = None,
    ):
        """Saves into `folder` as the flags ask for.

        Args:
          after_result: called on all workers after a `model.ckpt-N` is written; returns whether to
            end the training, and must return the same on all workers.
          state: sharded state to save together with the session's variables.
        """
        self._folder, self._last_step = folder, last_step
        self._every = settings.save_checkpoints_steps
        self._seconds = settings.save_checkpoints_minutes * 60 or math.inf
        self._micro_batches = settings.gradient_accumulation_steps
        self._keep = checkpoints_to_keep(settings)
        self._after_result = after_result
        self._state = state

    def begin(self) -> None:
        self._global_step = tf.train.get_global_step()
        # The number of workers that want a checkpoint, and of those that want to stop.
        self._own_requests = tf.placeholder(tf.float32, [2], "requests")
        self._requests = collectives.all_reduce_sum(self._own_requests)

    def after_create_session(self, session, coord) -> None:
        self._step = session.run(self._global_step)
        self._runs = 0
        self._longest_run = 0.0
        self._saved_at = time.perf_counter()
        signals.defer(_FIRST_RUN_SECONDS if collectives.size() > 1 else math.inf)

    def before_run(self, run_context):
        self._began = time.perf_counter()
        if (self._runs + 1) % self._micro_batches:
            return None
        is_due = collectives.is_chief() and self._began - self._saved_at >= self._seconds
        requests = [float(is_due), float(signals.deferred() is not None)]
        return tf.train.SessionRunArgs(self._requests, {self._own_requests: requests})

    def after_run(self, run_context, run_values) -> None:
        self._longest_run = max(self._longest_run, time.perf_counter() - self._began)
        signals.defer(self._patience())
        self._runs += 1
        if self._runs % self._micro_batches:
            return
        self._step += 1
        wants_checkpoint, wants_stop = map(bool, run_values.results)
        if collectives.size() == 1:
            # A single worker need not agree with others, so a signal counts at once.
            wants_stop = signals.deferred() is not None
        if wants_stop:
            signals.acknowledge()
            run_context.request_stop()
        if self._step % self._every == 0 or self._step == self._last_step:
            self._save(run_context.session, RESULT)
            if self._after_result and not wants_stop:
                self._score_result(run_context, self._after_result)
        elif wants_checkpoint or wants_stop:
            self._save(run_context.session, RESUME)

    def _score_result(self, run_context, after_result: Callable[[], bool]) -> None:
        # Everything is saved, so a signal may end the program at once during `after_result`.
        signals.raise_stopped()
        if after_result():
            run_context.request_stop()
        signals.defer(self._patience())
        self._saved_at = time.perf_counter()

    def _patience(self) -> float:
        """Returns how many seconds to wait after a signal: a step with a lost worker never ends."""
        if collectives.size() == 1:
            return math.inf
        return _PATIENCE_SECONDS + 2 * self._micro_batches * self._longest_run

    def _save(self, session, name: str) -> None:
        if collectives.is_chief():
            more = self._state.write if self._state else None
            path = save_checkpoint(session, self._folder, name, self._step, more)
            tf.logging.info("Saved %s", path)
            keep_last(self._folder, self._keep)
        elif self._state:
            self._state.take_part(session)
        self._saved_at = time.perf_counter()
