"""What happens between training steps: the log, the curves, the checkpoints."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Mapping
from typing import NamedTuple

import tensorflow.compat.v1 as tf

from runtime import graph_keys
from runtime.checkpoints import keep_last


class SaveCheckpoints(tf.train.SessionRunHook):
    """Saves `model.ckpt-N` every so many steps and at the end, never at the beginning."""

    def __init__(self, folder: str, every_steps: int, runs_a_step: int = 1, keep: int = 0):
        """Saves into `folder` at every step that is a multiple of `every_steps`.

        Args:
          folder: of the checkpoints.
          every_steps: steps between two of them.
          runs_a_step: runs of the session until a step is done.
          keep: how many checkpoints stay, the last ones; 0 for all.
        """
        self._folder = folder
        self._keep = keep
        self._prefix = os.path.join(folder, "model.ckpt")
        self._every = every_steps
        self._runs_a_step = runs_a_step

    def begin(self) -> None:
        self._global_step = tf.train.get_global_step()

    def after_create_session(self, session, coord) -> None:
        self._step = self._saved = session.run(self._global_step)
        self._runs = 0

    def after_run(self, run_context, run_values) -> None:
        self._runs += 1
        if self._runs % self._runs_a_step:
            return
        self._step += 1
        if self._step % self._every == 0:
            self._save(run_context.session)

    def end(self, session) -> None:
        if self._step != self._saved:
            self._save(session)

    def _save(self, session) -> None:
        saver = tf.get_collection(tf.GraphKeys.SAVERS)[0]
        path = saver.save(session, self._prefix, global_step=self._step)
        self._saved = self._step
        tf.logging.info("Saved %s", path)
        keep_last(self._folder, self._keep)


class Throughput(NamedTuple):
    """How much was done in some time."""

    steps: int
    tokens: int
    seconds: float

    def __sub__(self, other: Throughput) -> Throughput:
        return Throughput(*(a - b for a, b in zip(self, other, strict=True)))

    def per_second(self, batch_size: int) -> float:
        """Examples per second."""
        return self.steps * batch_size / max(self.seconds, 1e-9)


class TrainingLog(tf.train.SessionRunHook):
    """Logs progress every so many steps, writes curves, and logs statistics at the end."""

    def __init__(
        self,
        folder: str | None,
        total_steps: int,
        batch_size: int,
        every_steps: int,
        summary_steps: int = 1,
        runs_a_step: int = 1,
    ):
        """Prepares the log of a training.

        Args:
          folder: of the curves; None for none.
          total_steps: the last step.
          batch_size: examples a step, of all workers together.
          every_steps: steps between log lines.
          summary_steps: steps between two points of the curves.
          runs_a_step: runs of the session until a step is done, the last of which has its figures.
        """
        self._folder = folder
        self._total = total_steps
        self._batch_size = batch_size
        self._every = every_steps
        self._summary_every = summary_steps
        self._runs_a_step = runs_a_step

    def begin(self) -> None:
        self._fetches = {
            name: tf.get_collection(name)[0]
            for name in (graph_keys.LOSS, graph_keys.LEARNING_RATE, graph_keys.TOKENS)
        }
        self._global_step = tf.train.get_global_step()
        self._writer = tf.summary.FileWriterCache.get(self._folder) if self._folder else None

    def after_create_session(self, session, coord) -> None:
        self._first_step = session.run(self._global_step)
        self._done = self._logged = self._after_first = Throughput(0, 0, 0.0)
        self._runs = 0
        self._started = time.perf_counter()

    @property
    def step(self) -> int:
        """The step that is being run, or was the last."""
        return self._first_step + self._done.steps

    def before_run(self, run_context):
        return tf.train.SessionRunArgs(self._fetches)

    def after_run(self, run_context, run_values) -> None:
        self._runs += 1
        if self._runs % self._runs_a_step:
            return
        values = run_values.results
        self._done = Throughput(
            self._done.steps + 1,
            self._done.tokens + int(values[graph_keys.TOKENS]),
            time.perf_counter() - self._started,
        )
        if self._done.steps == 1:
            self._after_first = self._done
        step = self.step
        if step % self._summary_every == 0:
            self._add_to_curves(
                step,
                loss=values[graph_keys.LOSS],
                learning_rate=values[graph_keys.LEARNING_RATE],
            )
        if step % self._every == 0 or step >= self._total or self._done.steps == 1:
            self._log(step, values[graph_keys.LOSS], values[graph_keys.LEARNING_RATE])

    def end(self, session) -> None:
        if self._writer:
            self._writer.flush()
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
            "peak memory": f"{peak_memory_gb():.2f} GB",
        }
        log_statistics("Training statistics", rows)

    def _log(self, step: int, loss: float, learning_rate: float) -> None:
        recent = self._done - self._logged
        steady = self._done - self._after_first
        mean = steady if steady.steps else self._done
        left = (self._total - step) * mean.seconds / mean.steps
        rate = recent.per_second(self._batch_size)
        tf.logging.info(
            "step %d/%d (%.1f%%)  loss %.4f  learning rate %.3g  %.2f examples/s (mean %.2f)  "
            "%.0f tokens/s  peak memory %.2f GB  %s left",
            step,
            self._total,
            100.0 * step / self._total,
            loss,
            learning_rate,
            rate,
            mean.per_second(self._batch_size),
            recent.tokens / max(recent.seconds, 1e-9),
            peak_memory_gb(),
            format_seconds(left),
        )
        self._add_to_curves(step, examples_per_second=rate)
        self._logged = self._done

    def _add_to_curves(self, step: int, **values: float) -> None:
        if self._writer:
            points = [tf.Summary.Value(tag=t, simple_value=v) for t, v in values.items()]
            self._writer.add_summary(tf.Summary(value=points), step)


def log_statistics(title: str, rows: Mapping[str, object]) -> None:
    """Logs a block of names and values, which ends a part of a run."""
    tf.logging.info(title)
    for name, value in rows.items():
        tf.logging.info("  %-36s %s", name, value)


def peak_memory_gb() -> float:
    """The largest resident memory this process has had, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def format_seconds(seconds: float) -> str:
    """A duration for people: "0.8 s", "3 min 12 s", "2 h 05 min"."""
    if round(seconds, 1) < 60:
        return f"{seconds:.1f} s"
    minutes, seconds = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {seconds:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"
