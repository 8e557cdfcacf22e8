"""A hook that logs the steps of a training, with curves, metrics and statistics."""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

import tensorflow.compat.v1 as tf

from albert.core import estimators
from albert.devices import memory_use
from albert.optimization import TrainStep
from albert.settings.run_settings import RunSettings
from albert.training import metrics
from albert.training.plan import global_batch_size

# The figures of a step that curves and metrics contain; the last two only with a loss scale.
STEP_METRICS = ("loss", "learning_rate", "loss_scale", "skipped")


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
        self._curves = metrics.Curves(self._folder) if self._folder else None

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
        tf.logging.info("Training statistics")
        for name, value in rows.items():
            tf.logging.info("  %-36s %s", name, value)

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
        parts = [
            f"step {step}/{self._total} ({step / self._total:.1%})",
            f"loss {figures['loss']:.4f}",
            f"learning rate {figures['learning_rate']:.3g}",
            f"{rates['examples_per_second']:.2f} examples/s "
            f"(mean {mean.per_second(self._batch_size):.2f})",
            f"{rates['tokens_per_second']:.0f} tokens/s",
        ]
        if waiting is not None:
            parts.append(f"waiting for input {waiting:.1%}")
        if "loss_scale" in figures:
            parts.append(f"loss scale {figures['loss_scale']:g}  skipped={figures['skipped']}")
        parts += [memory_use.summary(), f"{format_seconds(left)} left"]
        tf.logging.info("%s", "  ".join(parts))
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


def format_seconds(seconds: float) -> str:
    """Formats a duration such as "0.8 s", "3 min 12 s" or "2 h 05 min"."""
    if round(seconds, 1) < 60:
        return f"{seconds:.1f} s"
    minutes, seconds = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {seconds:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"
