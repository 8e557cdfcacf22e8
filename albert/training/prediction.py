"""Prediction with one or more checkpoints, distributed over the workers; labels of the test set."""

from __future__ import annotations

import io
import itertools
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from albert.checkpoints.checkpoint_files import content_of_checkpoint
from albert.core import estimators
from albert.core.errors import UserError
from albert.core.log import progress_bar
from albert.devices import memory_use
from albert.distributed import collectives, exchange
from albert.prediction.session import Output, PredictSession
from albert.records.batches import Data
from albert.records.cached_file import CachedFile
from albert.records.records import reading_records
from albert.training.log_hook import format_seconds
from albert.training.loop import make_estimator
from albert.training.output_folder import checkpoint_to_use, scoring_settings
from albert.training.task import Task
from albert.training.task_model import converted_model_fn

# Examples that each worker predicts between two exchanges; this bounds the memory.
_ROUND = 4096


def as_bytes(batch: Output) -> np.ndarray:
    """Returns the outputs of a batch as bytes, row by row, with the names, types and shapes."""
    fields = [(name, values.dtype, values.shape[1:]) for name, values in batch.items()]
    rows = np.empty(len(next(iter(batch.values()))), fields)
    for name, values in batch.items():
        rows[name] = values
    file = io.BytesIO()
    np.save(file, rows, allow_pickle=False)
    return np.frombuffer(file.getbuffer(), np.uint8)


class OutputRows(Sequence[Output]):
    """The outputs for every example, as compact arrays; batches may have different shapes."""

    def __init__(self, batch_size: int, positions: np.ndarray | range):
        """Begins without batches; `positions` are those at which the examples arrive."""
        self._batch_size, self._positions = batch_size, positions
        self._batches = list[np.ndarray]()

    def add(self, batch: np.ndarray) -> None:
        """Adds the next batch, from `as_bytes`."""
        self._batches.append(np.load(io.BytesIO(batch.data), allow_pickle=False))

    def __len__(self) -> int:
        return len(self._positions)

    def __getitem__(self, index: Any) -> Any:
        batch, number = divmod(int(self._positions[index]), self._batch_size)
        row = self._batches[batch][number]
        return {name: row[name] for name in row.dtype.names}


def make_predictor(task: Task, data: Data, by_length: bool = True) -> Predictor:
    """Returns a predictor for a split and any checkpoint.

    Long records come first, or, without `by_length`, in the order of the file.
    """
    settings, order = task.settings, data.order() if by_length else None
    size = settings.predict_batch_size
    estimator = make_estimator(converted_model_fn(task, None), settings)
    return Predictor(estimator, data.input_fn(size, order=order), size, data.num_records, order)


class Predictor:
    """Computes a model's outputs for every example on all workers, and returns them in order.

    Of the batches that a single worker would compute, worker r of n computes r, r + n, and so on,
    so the results are the same bit for bit. Rank 0 calls `outputs` for each checkpoint and then
    `finish`; the other workers call `follow`. The log shows the throughput.
    """

    def __init__(
        self,
        estimator: estimators.Estimator,
        input_fn: Callable,
        batch_size: int,
        num_examples: int,
        order: np.ndarray | None = None,
    ):
        """Creates a predictor.

        Args:
          input_fn: this worker's batches. The last one may be padded; outputs after the last
            example are ignored.
          batch_size: examples per batch of a worker; `num_examples` are those of all workers.
          order: index of each example in the order in which `input_fn` yields them; outputs are
            returned in the order of the indices. None if they arrive in that order.
        """
        self._estimator = estimator
        self._input_fn = input_fn
        self._batch_size = batch_size
        self._num_examples = num_examples
        # The position at which each example arrives.
        self._positions: np.ndarray | range = range(num_examples)
        if order is not None:
            self._positions = np.argsort(order).astype(np.int32)
        workers = np.arange(num_examples) // batch_size % collectives.size()
        self._num_own = int(np.sum(workers == collectives.rank()))
        self._session: PredictSession | None = None

    def outputs(self, checkpoint: str) -> OutputRows:
        """Returns the model's outputs for every example, with the weights of a checkpoint.

        Raises a `UserError` if the checkpoint does not match the model.
        """
        exchange.broadcast_object(checkpoint)
        started = time.perf_counter()
        rows = OutputRows(self._batch_size, self._positions)
        for batch in self._all_batches(checkpoint):
            rows.add(batch)
        seconds = time.perf_counter() - started
        tf.logging.info(
            "%s: %d examples predicted in %s, %.2f examples/s, %s",
            os.path.basename(checkpoint),
            self._num_examples,
            format_seconds(seconds),
            self._num_examples / seconds,
            memory_use.summary(),
        )
        return rows

    def follow(self) -> None:
        """Predicts this worker's batches for every checkpoint that rank 0 names, until `finish`."""
        while (checkpoint := exchange.broadcast_object(None)) is not None:
            for _ in self._all_batches(checkpoint):
                pass

    def finish(self) -> None:
        """Tells the other workers that there are no more checkpoints for now."""
        exchange.broadcast_object(None)

    def close(self) -> None:
        """Frees the model's memory; the next prediction builds the model again."""
        if self._session:
            self._session.close()
        self._session = None

    def batches(self, checkpoint: str | None) -> Iterator[Output]:
        """Yields this worker's batches of outputs, with initial values if `checkpoint` is None."""
        if self._session is None:
            model, config = self._estimator, self._estimator._session_config
            self._session = PredictSession(
                model.model_fn, self._inputs, config, model.config.tf_random_seed
            )
        self._session.load(checkpoint)
        yield from self._session.run_pipeline()

    def _inputs(self) -> tuple[Mapping[str, tf.Tensor], Sequence[tf.train.SessionRunHook]]:
        """Builds the input pipeline; Habana's estimator places it on the device."""
        return self._estimator._get_features_from_input_fn(
            self._input_fn, estimators.ModeKeys.PREDICT
        )

    def _own_batches(self, checkpoint: str) -> Iterator[np.ndarray]:
        with progress_bar(self._num_own, "prediction", "examples") as bar, reading_records():
            for batch in self.batches(checkpoint):
                yield as_bytes(batch)
                bar.update(self._batch_size)

    def _all_batches(self, checkpoint: str) -> Iterator[np.ndarray]:
        """Yields the batches of all workers, in the order in which a single worker predicts."""
        own = self._own_batches(checkpoint)
        batches_per_round = -(-_ROUND // self._batch_size)
        examples_per_round = batches_per_round * self._batch_size * collectives.size()
        for _ in range(0, self._num_examples, examples_per_round):
            batches = list(itertools.islice(own, batches_per_round))
            by_rank = exchange.gather_arrays(batches, np.dtype(np.uint8))
            for turn in itertools.zip_longest(*by_rank):
                yield from (batch for batch in turn if batch is not None)
        for _ in own:
            # There are no more; this ends the reading.
            pass


def write_labels(task: Task, data: Data, contents: Mapping[str, Any]) -> None:
    """Labels the test set with the best checkpoint, unless the labels already exist.

    Raises a `UserError` without a checkpoint, or for features of another test set.
    """
    predictor = make_predictor(task, data)
    if not collectives.is_chief():
        predictor.follow()
        predictor.close()
        return
    checkpoint = checkpoint_to_use(task.settings)
    made_from = {"checkpoint": content_of_checkpoint(checkpoint)}
    labels = _label_files(task, made_from | scoring_settings(task, contents))
    with labels.lock():
        if labels.reusable() is None:
            outputs = predictor.outputs(checkpoint)
            with labels.building() as (names, summary):
                summary |= task.write_labels(data, outputs, names)
    predictor.finish()
    predictor.close()
    tf.logging.info("Predictions of %s in %s", checkpoint, " and ".join(labels.paths))


def check_labels(task: Task) -> None:
    """Raises a `UserError` if a file of test predictions was not written by this program."""
    labels = _label_files(task, {})
    if labels.is_foreign():
        raise UserError(
            f"{labels.paths[0]} exists and was not written by this program; give another "
            "--output_dir or remove it"
        )


def _label_files(task: Task, made_from: dict) -> CachedFile:
    """Returns the cached files of test predictions, for the sources in `made_from`."""
    folder = task.settings.output_dir
    first, *others = (os.path.join(folder, name) for name in task.label_outputs)
    return CachedFile(first, made_from, others)
