"""A hook that logs the steps of a training, with curves, metrics and statistics."""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Iterator, Mapping
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
        if self._done.steps:
            total, first = (format_seconds(x.seconds) for x in (self._done, self._after_first))
            text = f"Trained {self._done.steps} steps in {total}, the first one in {first}; later "
            tf.logging.info("%s", text + "  ".join(_described(self._rates(self._steady()))))

    def _steady(self) -> Throughput:
        """Returns the work without the first step, in which the graph and kernels are made."""
        return self._done - self._after_first if self._done.steps > 1 else self._done

    def _rates(self, done: Throughput) -> dict[str, float]:
        """Returns the speed, and if it is measured, the share of time without input, by curve."""
        seconds = max(done.seconds, 1e-9)
        rates = {
            "examples_per_second": done.steps * self._batch_size / seconds,
            "tokens_per_second": done.tokens / seconds,
        }
        if self._monitor.waited is not None:
            rates["waiting_for_input"] = done.waited / seconds
        return rates

    def _log(self, step: int, figures: Mapping[str, float]) -> None:
        rates, steady = self._rates(self._done - self._logged), self._steady()
        left = (self._total - step) * steady.seconds / steady.steps
        parts = [
            f"step {step}/{self._total} ({step / self._total:.1%})",
            f"loss {figures['loss']:.4f}",
            f"learning rate {figures['learning_rate']:.3g}",
            *_described(rates),
        ]
        if "loss_scale" in figures:
            parts.append(f"loss scale {figures['loss_scale']:g}  skipped={figures['skipped']}")
        tf.logging.info("%s", "  ".join([*parts, f"{format_seconds(left)} left"]))
        rates |= memory_use.curves()
        self._add_to_curves(step, **rates)
        if self._folder:
            values = {name: float(f"{v:.7g}") for name, v in {**figures, **rates}.items()}
            metrics.append(self._folder, metrics.TRAINING, step, values)
        self._logged = self._done

    def _add_to_curves(self, step: int, **values: float) -> None:
        if self._curves:
            self._curves.add(step, **values)


def _described(rates: Mapping[str, float]) -> Iterator[str]:
    """Yields the parts of a log line about rates, and about memory."""
    yield f"{rates['examples_per_second']:.2f} examples/s"
    yield f"{rates['tokens_per_second']:.0f} tokens/s"
    if "waiting_for_input" in rates:
        yield f"waiting for input {rates['waiting_for_input']:.1%}"
    yield memory_use.summary()


def format_seconds(seconds: float) -> str:
    """Formats a duration such as "0.8 s", "3 min 12 s" or "2 h 05 min"."""
    if round(seconds, 1) < 60:
        return f"{seconds:.1f} s"
    minutes, seconds = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {seconds:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"
