"""Prediction with one checkpoint after the other, shared out over the workers."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator

import numpy as np
import tensorflow.compat.v1 as tf

from runtime import distributed, estimators
from runtime.checkpoints.checkpoint_files import FitsModel, restoring
from runtime.data.records import reading_records
from runtime.progress import progress
from runtime.training.hooks import format_seconds, log_statistics, peak_memory_gb

Output = dict[str, np.ndarray]


class Predictor:
    """What a model gives for every example, in order, whoever of the workers computes it.

    Worker r of n computes the batches r, r + n, ... of those that a single one would: the
    results are the same to the last bit. Rank 0 says which checkpoints: it calls `outputs` for
    each and `finish` at the end, the other workers call `follow`. The log says how fast it went.
    """

    def __init__(
        self,
        estimator: estimators.Estimator,
        input_fn: Callable,
        batch_size: int,
        num_examples: int,
    ):
        """Sets up; `input_fn` gives this worker's share of the batches of `num_examples` examples.

        The last batch may be filled up; what comes after the last example is not looked at.
        """
        self._estimator = estimator
        self._input_fn = input_fn
        self._batch_size = batch_size
        self._num_examples = num_examples
        workers = np.arange(num_examples) // batch_size % distributed.size()
        self._num_own = int(np.sum(workers == distributed.rank()))
        self._seconds = []

    def outputs(self, checkpoint: str) -> list[Output]:
        """Returns what the model gives for every example with the values of a checkpoint.

        Raises:
          UserError: the checkpoint does not fit the model.
        """
        distributed.share(checkpoint)
        started = time.perf_counter()
        rows = self._outputs(checkpoint)
        seconds = time.perf_counter() - started
        self._seconds.append(seconds)
        tf.logging.info(
            "%s: %d examples predicted in %s, %s examples/s",
            os.path.basename(checkpoint),
            self._num_examples,
            format_seconds(seconds),
            self._per_second(1, seconds),
        )
        return rows

    def follow(self) -> None:
        """Does this worker's share for every checkpoint that rank 0 names, until it is done."""
        while (checkpoint := distributed.share(None)) is not None:
            self._outputs(checkpoint)

    def finish(self) -> None:
        """Lets the other workers go."""
        distributed.share(None)

    def log_statistics(self) -> None:
        """Logs how fast it went, if there was anything to predict."""
        if not self._seconds:
            return
        total = sum(self._seconds)
        rows = {
            "checkpoints": len(self._seconds),
            "examples of each": self._num_examples,
            "global batch": self._batch_size * distributed.size(),
            "time": format_seconds(total),
            "examples/s, mean": self._per_second(len(self._seconds), total),
            "peak memory": f"{peak_memory_gb():.2f} GB",
        }
        log_statistics("Prediction statistics", rows)

    def _per_second(self, checkpoints: int, seconds: float) -> str:
        return f"{checkpoints * self._num_examples / seconds:.2f}"

    def _outputs(self, checkpoint: str) -> list[Output]:
        rows = self._predict(checkpoint)
        rows = list(progress(rows, self._num_own, "prediction", "examples"))[: self._num_own]
        return rows if distributed.size() == 1 else self._merged(rows)

    def batches(self, checkpoint: str | None) -> Iterator[Output]:
        """Yields this worker's batches of outputs, with the values of a checkpoint.

        Without one the model has its initial values.
        """
        # Where another host lacks the file, its variables come from rank 0 all the same.
        here = checkpoint and (distributed.is_chief() or os.path.exists(checkpoint + ".index"))
        yield from self._estimator.predict(
            self._input_fn,
            checkpoint_path=checkpoint if here else None,
            hooks=[*([FitsModel(checkpoint)] if here else []), *distributed.starting_hooks()],
            yield_single_examples=False,
        )

    def _predict(self, checkpoint: str) -> Iterator[Output]:
        with restoring(checkpoint), reading_records():
            for batch in self.batches(checkpoint):
                for values in zip(*batch.values(), strict=True):
                    yield dict(zip(batch, values, strict=True))

    def _merged(self, rows: list[Output]) -> list[Output]:
        """Returns all workers' rows, in the order of the examples."""
        layout = distributed.share(
            [(key, value.dtype.str, value.ndim) for key, value in rows[0].items()] if rows else []
        )
        columns = []
        for key, dtype, dimensions in layout:
            values = [np.ravel(row[key]) for row in rows]
            by_rank = distributed.gather(values, np.dtype(dtype))
            ordered = list(self._in_order(by_rank))
            columns.append(ordered if dimensions else [value[0] for value in ordered])
        names = [key for key, _, _ in layout]
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]

    def _in_order(self, by_rank: list[list[np.ndarray]]) -> Iterator[np.ndarray]:
        """Yields the rows of batch 0, which rank 0 has, then those of batch 1, and so on."""
        rows = [iter(share) for share in by_rank]
        for example in range(self._num_examples):
            yield next(rows[example // self._batch_size % len(rows)])
