"""A model in a TensorFlow session, which computes outputs for sequences of tokens."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from albert.checkpoints.checkpoint_files import check_fits, restoring
from albert.core import estimators
from albert.core.errors import UserError
from albert.data.sequences import SEQUENCE_KEYS, TokenSequence, padded
from albert.inference.folders import ModelFolder
from albert.settings.run_settings import ONNXRUNTIME, TENSORFLOW
from albert.training.model_fn import Head, ModelOptions, make_model_fn
from albert.training.prediction import Output

# Lengths are rounded up to multiples of this. In TensorFlow the first use of a shape is slow, and
# rounding keeps the number of shapes small.
_LENGTH_STEPS = {TENSORFLOW: 16, ONNXRUNTIME: 1}


class ModelSession:
    """The graph of an encoder with a head, and its weights."""

    def __init__(
        self,
        folder: ModelFolder,
        head: Head,
        options: int = 0,
        trims: bool = True,
        batch_size: int = 8,
    ):
        """Builds the graph and reads the weights.

        Args:
          options: sequences per example if the head takes several, otherwise 0.
          trims: whether batches may be padded only to their longest sequence.
          batch_size: examples per batch.

        Raises:
          UserError: the weights do not match the model.
        """
        self._path, self._process = folder.path, os.getpid()
        self._options = options
        self._longest = folder.value("max_seq_length")
        self._trims = trims
        self._length_step = _LENGTH_STEPS[folder.engine]
        self._batch_size = batch_size
        graph = tf.Graph()
        with graph.as_default():
            # The initial values are not used. Drawing them still needs a seed if an earlier run in
            # this process requested deterministic operations.
            tf.set_random_seed(1)
            shape = [None, options, None] if options else [None, None]
            self._inputs = {key: tf.placeholder(tf.int32, shape, key) for key in SEQUENCE_KEYS}
            model_fn = make_model_fn(folder.config, head, ModelOptions(engine=folder.engine))
            spec = model_fn(self._inputs, None, estimators.ModeKeys.PREDICT, None)
            # The exported outputs have all scores; the predictions may have only the best ones.
            (exported,) = (output.outputs for output in spec.export_outputs.values())
            self._outputs = spec.predictions, exported
            variables = tf.global_variables()
            check_fits(folder.checkpoint, variables)
            self._session = tf.Session()
            with restoring(folder.checkpoint):
                tf.train.Saver(variables).restore(self._session, folder.checkpoint)
            for hook in spec.prediction_hooks:
                hook.after_create_session(self._session, None)

    def run(
        self,
        examples: Sequence[Sequence[TokenSequence]],
        pause: Callable[[], None] | None = None,
        batch_size: int = 0,
    ) -> Iterator[tuple[int, Output]]:
        """Yields the outputs for examples with their numbers, short examples first.

        Args:
          pause: called before each example; it may raise. Without it, examples run in batches.
          batch_size: examples per batch; 0 for that of the session.

        Raises:
          UserError: an output is not finite, or this process was forked after the model was loaded.
        """
        if os.getpid() != self._process:
            # The session would wait forever for its threads, which a forked process lacks.
            raise UserError(
                f"{self._path} was loaded before this process was forked; load it in this process, "
                "or start processes with multiprocessing.get_context('spawn')"
            )
        size = 1 if pause else batch_size or self._batch_size
        lengths = [max(len(sequence.ids) for sequence in example) for example in examples]
        order = sorted(range(len(examples)), key=lengths.__getitem__)
        for start in range(0, len(order), size):
            if pause:
                pause()
            batch = order[start : start + size]
            # The last example is the longest.
            outputs = self._predict([examples[i] for i in batch], self._length(lengths[batch[-1]]))
            for row, number in enumerate(batch):
                yield number, {name: values[row] for name, values in outputs.items()}

    def outputs(
        self, examples: Sequence[Sequence[TokenSequence]], pause: Callable[[], None] | None = None
    ) -> list[Output]:
        """Returns the outputs for examples in their order; see `run`."""
        numbered = sorted(self.run(examples, pause), key=lambda pair: pair[0])
        return [output for _, output in numbered]

    def _length(self, longest: int) -> int:
        rounded = -(-longest // self._length_step) * self._length_step
        return min(rounded, self._longest) if self._trims else self._longest

    def _predict(
        self, examples: Sequence[Sequence[TokenSequence]], length: int
    ) -> dict[str, np.ndarray]:
        rows = [padded(sequence, length) for example in examples for sequence in example]
        shape = [-1, self._options, length] if self._options else [-1, length]
        feed = {
            placeholder: np.array(values, np.int32).reshape(shape)
            for placeholder, values in zip(
                self._inputs.values(), zip(*rows, strict=True), strict=True
            )
        }
        outputs, scores = self._session.run(self._outputs, feed)
        for name, values in scores.items():
            if values.dtype.kind == "f" and not np.isfinite(values).all():
                raise UserError(
                    f"{self._path}: {name} of a text is not finite (NaN or infinite) because the "
                    "weights are too large; use another model"
                )
        return outputs
