"""A session that predicts: a model's graph, and the weights of one checkpoint after another."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from albert.checkpoints.checkpoint_files import restore, restoring
from albert.core import estimators
from albert.core.processes import check_not_forked
from albert.devices import device
from albert.distributed import collectives
from albert.prediction.model import DEFAULT_SIGNATURE

# A model's outputs, by name, for an example or for all examples of a batch, and values of inputs.
Output = dict[str, np.ndarray]
Batch = Mapping[str, np.ndarray]
# Builds a model's features in the current graph, and returns them with hooks of the session.
MakeInputs = Callable[[], tuple[Mapping[str, tf.Tensor], Sequence[tf.train.SessionRunHook]]]
# Batches that a CPU computes at a time. One of them uses the cores that the other leaves idle.
AT_ONCE = 2


def placeholders(specs: Mapping[str, tf.TensorSpec]) -> MakeInputs:
    """Returns a function that builds placeholders, which `PredictSession.run_all` feeds."""
    return lambda: (
        {name: tf.placeholder(spec.dtype, spec.shape, name) for name, spec in specs.items()},
        (),
    )


class PredictSession:
    """The graph of a model in a session, for one checkpoint after another."""

    def __init__(
        self,
        model_fn: Callable,
        make_inputs: MakeInputs,
        config: tf.ConfigProto | None = None,
        seed: int = 1,
    ):
        """Builds the graph; weights come from `load`. Raises as `check_not_forked`.

        Args:
          model_fn: as for an estimator; builds the model in the mode `PREDICT`.
          config: options of the session; None for TensorFlow's own.
          seed: seed of initial values. Without one, a deterministic run cannot create random
            operations, such as initializers.
        """
        check_not_forked()
        with tf.Graph().as_default() as graph:
            tf.set_random_seed(seed)
            self._inputs, hooks = make_inputs()
            spec = model_fn(self._inputs, None, estimators.ModeKeys.PREDICT, None)
            exports = spec.export_outputs or {}
            self._exported = exports[DEFAULT_SIGNATURE].outputs if exports else spec.predictions
            self._predictions = spec.predictions
            self._variables = tf.global_variables()
            self._initial = tf.global_variables_initializer()
            self._saver = tf.train.Saver(self._variables)
            # The model's own hooks need the values that the workers have received.
            self._hooks = [*hooks, *collectives.starting_hooks(), *spec.prediction_hooks]
            for hook in self._hooks:
                hook.begin()
        self._session = tf.Session(graph=graph, config=optimized_twice(config))

    def load(self, checkpoint: str | None) -> None:
        """Loads the weights of a checkpoint, or initial ones for None; rewinds the inputs.

        Raises a `UserError` if the checkpoint does not match the model, or is damaged.
        """
        with self._session.graph.as_default():
            if checkpoint:
                self._restore(checkpoint)
            else:
                self._session.run(self._initial)
            for hook in self._hooks:
                hook.after_create_session(self._session, None)

    def _restore(self, checkpoint: str) -> None:
        with restoring(checkpoint):
            is_here = os.path.isdir(checkpoint) or os.path.exists(f"{checkpoint}.index")
            if collectives.is_chief() or is_here:
                restore(self._session, self._saver, self._variables, checkpoint)
            else:
                # A host without the file receives its variables from rank 0.
                self._session.run(self._initial)

    def run_pipeline(self) -> Iterator[Output]:
        """Yields the predictions for each batch of inputs that are an input pipeline, in order."""
        # A batch that is on a card stays there.
        if device.kind() != "cpu":
            return self._until_end(self._predictions)
        return self._compute(self._predictions, self._until_end(self._inputs))

    def _until_end(self, tensors: Any) -> Iterator[Any]:
        """Yields the values of tensors until the end of the pipeline."""
        with contextlib.suppress(tf.errors.OutOfRangeError):
            while True:
                yield self._session.run(tensors)

    def run_all(self, batches: Iterator[Batch]) -> Iterator[tuple[Output, Output]]:
        """Yields the predictions for values of placeholders, and the outputs of an export.

        The exported outputs have all scores; the predictions may have only the best ones.
        """
        return self._compute((self._predictions, self._exported), batches)

    def _compute(self, tensors: Any, batches: Iterator[Batch]) -> Iterator[Any]:
        """Yields the values of tensors for each batch of the model's inputs, in order."""
        check_not_forked()
        inputs = tf.nest.flatten(self._inputs)

        def compute(batch: Batch) -> Any:
            values = tf.nest.flatten(batch)
            return self._session.run(tensors, dict(zip(inputs, values, strict=True)))

        at_once = AT_ONCE if device.kind() == "cpu" else 1
        with ThreadPoolExecutor(at_once) as pool:
            # More than at a time, so that threads rarely wait for each other.
            while some := list(itertools.islice(batches, 2 * at_once)):
                # A single answer does not wait for the start of a thread.
                yield from (pool.map if len(some) > 1 else map)(compute, some)

    def save(self, folder: str) -> None:
        """Writes a SavedModel whose default signature returns the exported outputs."""
        with self._session.graph.as_default():
            signature = tf.saved_model.predict_signature_def(self._inputs, self._exported)
            builder = tf.saved_model.Builder(folder)
            builder.add_meta_graph_and_variables(
                self._session,
                [tf.saved_model.SERVING],
                {DEFAULT_SIGNATURE: signature},
                strip_default_attrs=True,
                saver=self._saver,
            )
            builder.save()

    def close(self) -> None:
        """Closes the session and frees its memory."""
        self._session.close()


def optimized_twice(config: tf.ConfigProto | None) -> tf.ConfigProto:
    """Returns the options of a session whose graph TensorFlow optimizes in two passes.

    Only the second pass computes GELU in the matrix product before it, which saves some of the time
    of prediction in float32.
    """
    config = tf.ConfigProto.FromString((config or tf.ConfigProto()).SerializeToString())
    rewrites = config.graph_options.rewrite_options
    rewrites.meta_optimizer_iterations = type(rewrites).TWO
    return config
