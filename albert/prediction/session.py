"""A session that predicts: a model's graph, and the weights of one checkpoint after another."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from albert.checkpoints.checkpoint_files import as_files, check_fits, restoring
from albert.core import estimators
from albert.devices import onednn
from albert.distributed import collectives
from albert.precision.weights import SETTERS
from albert.prediction.model import DEFAULT_SIGNATURE

# A model's outputs, by name, for an example or for all examples of a batch.
Output = dict[str, np.ndarray]
# Builds a model's features in the current graph, and returns them with hooks of the session.
MakeInputs = Callable[[], tuple[Mapping[str, tf.Tensor], Sequence[tf.train.SessionRunHook]]]


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
        is_portable: bool = False,
    ):
        """Builds the graph; weights come from `load`.

        Args:
          model_fn: as for an estimator; builds the model in the mode `PREDICT`.
          config: options of the session; None for TensorFlow's own.
          seed: seed of initial values. Without one, a deterministic run cannot create random
            operations, such as initializers.
          is_portable: whether `save` writes the graph, so that it needs operations that every
            machine has.
        """
        with tf.Graph().as_default() as graph:
            tf.set_random_seed(seed)
            if not is_portable:
                onednn.allow()
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
            self._setters = tf.get_collection(SETTERS)
        self._config = optimized_twice(config)
        self._session = tf.Session(graph=graph, config=self._config)
        self._is_new = True

    def load(self, checkpoint: str | None) -> None:
        """Loads the weights of a checkpoint, or initial ones for None; rewinds the inputs.

        Raises a `UserError` if the checkpoint does not match the model, or is damaged.
        """
        graph = self._session.graph
        if onednn.allows_dense(graph) and not self._is_new:
            self._session.close()
            self._session = tf.Session(graph=graph, config=self._config)
        self._is_new = False
        with graph.as_default():
            if checkpoint:
                self._restore(checkpoint)
            else:
                self._session.run(self._initial)
            for hook in self._hooks:
                hook.after_create_session(self._session, None)
            self._session.run(self._setters)

    def _restore(self, checkpoint: str) -> None:
        with restoring(checkpoint), as_files(checkpoint) as prefix:
            if collectives.is_chief() or os.path.exists(f"{prefix}.index"):
                check_fits(prefix, self._variables)
                self._saver.restore(self._session, prefix)
            else:
                # A host without the file receives its variables from rank 0.
                self._session.run(self._initial)

    def run(self) -> Output:
        """Returns the predictions for a pipeline's next batch, or raises `OutOfRangeError`."""
        return self._session.run(self._predictions)

    def run_all(self, values: Mapping[str, np.ndarray]) -> tuple[Output, Output]:
        """Returns the predictions for the values of placeholders, and the outputs of an export.

        The exported outputs have all scores; the predictions may have only the best ones.
        """
        feed = {self._inputs[name]: value for name, value in values.items()}
        return self._session.run((self._predictions, self._exported), feed)

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
