"""Hooks that run between training steps: log, curves and checkpoints."""

from __future__ import annotations

import contextlib
import math
import operator
import os
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

import tensorflow.compat.v1 as tf

from albert.checkpoints.checkpoint_files import RESULT, RESUME, keep_last, save_checkpoint
from albert.checkpoints.model_folder import RECORD
from albert.checkpoints.sharded_state import ShardedState
from albert.core import estimators, signals
from albert.core.errors import UserError
from albert.devices import memory_use
from albert.distributed import collectives
from albert.optimization import TrainStep
from albert.settings.run_settings import RunSettings
from albert.training import metrics
from albert.training.curves import Curves
from albert.training.plan import checkpoints_to_keep, global_batch_size

# The figures of a step that curves and metrics contain; the last two only with a loss scale.
STEP_METRICS = ("loss", "learning_rate", "loss_scale", "skipped")
# After a signal, the program waits this long for a step to end, plus the time that steps take.
_PATIENCE_SECONDS = 15.0
# The allowance for the first run of the session, whose duration is unknown.
_FIRST_RUN_SECONDS = 60.0


class StepMonitor:
    """Passes tensors of the training graph to the hooks, which are created before the graph.

    `waited` is a float64 scalar, the seconds from request to arrival of a batch.
    """

    step: TrainStep
    waited: tf.Tensor | None = None

    def watching(self, model_fn: Callable) -> Callable:
        """Returns a wrapper of `model_fn` that stores the training step in this monitor."""

        def watched_model_fn(features, labels, mode, params):
            spec = model_fn(features, labels, mode, params)
            self.step = estimators.graph_parts(spec)
            return spec

        return watched_model_fn


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
        self._folder_ids = self._ids_of_folder()
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

    def _ids_of_folder(self) -> list[tuple[int, int] | None]:
        """Returns the device and inode numbers of the folder and of its run's record."""
        return [_id_of(path) for path in (self._folder, os.path.join(self._folder, RECORD))]

    def _save(self, session, name: str) -> None:
        if collectives.is_chief():
            if self._ids_of_folder() != self._folder_ids:
                raise UserError(
                    f"--output_dir {self._folder} was removed, emptied or replaced during the "
                    f"training: step {self._step} cannot be saved as part of this run; start the "
                    "run again"
                )
            more = self._state.write if self._state else None
            path = save_checkpoint(session, self._folder, name, self._step, more)
            tf.logging.info("Saved %s", path)
            keep_last(self._folder, self._keep)
        elif self._state:
            self._state.take_part(session)
        self._saved_at = time.perf_counter()


def _id_of(path: str) -> tuple[int, int] | None:
    with contextlib.suppress(FileNotFoundError):
        status = os.stat(path)
        return status.st_dev, status.st_ino
    return None


class Throughput(NamedTuple):
    """Counts of work done in some time; during `waited` of the `seconds` there was no input."""

    steps: int
    tokens: int
    seconds: float
    waited: float

    def __sub__(self, other: Throughput) -> Throughput:
        return Throughput(*map(operator.sub, self, other))

    def per_second(self, batch_size: int) -> float:
        """Returns the examples per second."""
        return self.steps * batch_size / max(self.seconds, 1e-9)


_NOTHING = Throughput(0, 0, 0.0, 0.0)


class TrainingLog(tf.train.SessionRunHook):
    """Logs progress every few steps and every 30 s, with curves, metrics and statistics."""

    # Seconds after which a step is logged in any case, so that slow steps show progress.
    _LONGEST_SILENCE = 30.0

    def __init__(
        self, monitor: StepMonitor, folder: str | None, total_steps: int, settings: RunSettings
    ):
        """Prepares the log; curves and metrics go to `folder`, or nowhere if it is None."""
        self._monitor, self._folder, self._total = monitor, folder, total_steps
        self._batch_size = global_batch_size(settings)
        self._every, self._summary_every = settings.log_steps, settings.save_summary_steps
        # The last run of a step gives its figures.
        self._micro_batches = settings.gradient_accumulation_steps
        # Needed if the training fails before its first step.
        self._first_step, self._done = 0, _NOTHING

    def begin(self) -> None:
        step, waited = self._monitor.step, self._monitor.waited
        fetches = {"loss": step.loss, "learning_rate": step.learning_rate, "tokens": step.tokens}
        fetches |= {} if waited is None else {"waited": waited}
        if step.scaling:
            with tf.control_dependencies([step.op]):
                fetches["loss_scale"] = step.scaling.scale.read_value()
                fetches["skipped"] = step.scaling.skipped_steps.read_value()
        self._fetches = fetches
        self._global_step = tf.train.get_global_step()
        self._curves = Curves(self._folder) if self._folder else None

    def after_create_session(self, session, coord) -> None:
        self._first_step = session.run(self._global_step)
        scaling = self._monitor.step.scaling
        self._skipped = session.run(scaling.skipped_steps) if scaling else 0
        self._done = self._logged = self._after_first = _NOTHING
        self._runs, self._waited = 0, 0.0
        self._started = time.perf_counter()

    @property
    def step(self) -> int:
        """Returns the number of the last completed step."""
        return self._first_step + self._done.steps

    def exclude(self, seconds: float) -> None:
        """Excludes a number of seconds from the time of the training."""
        self._started += seconds

    def before_run(self, run_context):
        return tf.train.SessionRunArgs(self._fetches)

    def after_run(self, run_context, run_values) -> None:
        results = run_values.results
        self._runs += 1
        self._waited += results.get("waited", 0.0)
        if self._runs % self._micro_batches:
            return
        self._done = Throughput(
            self._done.steps + 1,
            self._done.tokens + int(results["tokens"]),
            time.perf_counter() - self._started,
            self._waited,
        )
        if self._done.steps == 1:
            self._after_first = self._done
        step, figures = self.step, {name: results[name] for name in STEP_METRICS if name in results}
        if figures.get("skipped", 0) > self._skipped:
            self._skipped = figures["skipped"]
            tf.logging.info(
                "Skipped step %d: its gradients overflow float16; the loss scale is now %g",
                step,
                figures["loss_scale"],
            )
        if step % self._summary_every == 0:
            self._add_to_curves(step, **figures)
        silence = self._done.seconds - self._logged.seconds
        is_due = step % self._every == 0 or silence >= self._LONGEST_SILENCE
        if is_due or step >= self._total or self._done.steps == 1:
            self._log(step, figures)

    def end(self, session) -> None:
        if self._curves:
            self._curves.close()
        total, later = self._done, self._done - self._after_first
        if not total.steps:
            return
        rows = {
            "steps": total.steps,
            "global batch": self._batch_size,
            "time": format_seconds(total.seconds),
            "first step": format_seconds(self._after_first.seconds),
            "examples/s, mean": f"{total.per_second(self._batch_size):.2f}",
            "examples/s, without the first step": f"{later.per_second(self._batch_size):.2f}",
            "tokens/s, mean": f"{total.tokens / total.seconds:.0f}",
            **memory_use.table(),
        }
        if (waiting := self._waiting(later if later.steps else total)) is not None:
            rows["waiting for input"] = f"{waiting:.1%}"
        if self._monitor.step.scaling:
            rows["skipped steps"] = self._skipped
        log_statistics("Training statistics", rows)

    def _log(self, step: int, figures: Mapping[str, float]) -> None:
        recent = self._done - self._logged
        steady = self._done - self._after_first
        mean = steady if steady.steps else self._done
        left = (self._total - step) * mean.seconds / mean.steps
        rates = {
            "examples_per_second": recent.per_second(self._batch_size),
            "tokens_per_second": recent.tokens / max(recent.seconds, 1e-9),
        }
        if (waiting := self._waiting(recent)) is not None:
            rates["waiting_for_input"] = waiting
        scaling = ""
        if "loss_scale" in figures:
            scaling = f"loss scale {figures['loss_scale']:g}  skipped={figures['skipped']}  "
        tf.logging.info(
            "step %d/%d (%.1f%%)  loss %.4f  learning rate %.3g  %.2f examples/s (mean %.2f)  "
            "%.0f tokens/s  %s%s%s  %s left",
            step,
            self._total,
            100.0 * step / self._total,
            figures["loss"],
            figures["learning_rate"],
            rates["examples_per_second"],
            mean.per_second(self._batch_size),
            rates["tokens_per_second"],
            "" if waiting is None else f"waiting for input {waiting:.1%}  ",
            scaling,
            memory_use.summary(),
            format_seconds(left),
        )
        rates |= memory_use.curves()
        self._add_to_curves(step, **rates)
        if self._folder:
            values = {name: float(f"{v:.7g}") for name, v in {**figures, **rates}.items()}
            metrics.append(self._folder, metrics.TRAINING, step, values)
        self._logged = self._done

    def _waiting(self, done: Throughput) -> float | None:
        """Returns the fraction of the time spent waiting for input; None if it is not measured."""
        if self._monitor.waited is None:
            return None
        return done.waited / max(done.seconds, 1e-9)

    def _add_to_curves(self, step: int, **values: float) -> None:
        if self._curves:
            self._curves.add(step, **values)


def log_statistics(title: str, rows: Mapping[str, object]) -> None:
    """Logs the statistics at the end of a part of a run, as a block of names and values."""
    tf.logging.info(title)
    for name, value in rows.items():
        tf.logging.info("  %-36s %s", name, value)


def format_seconds(seconds: float) -> str:
    """Formats a duration such as "0.8 s", "3 min 12 s" or "2 h 05 min"."""
    if round(seconds, 1) < 60:
        return f"{seconds:.1f} s"
    minutes, seconds = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {seconds:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"
