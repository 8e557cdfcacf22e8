"""A model in a TensorFlow session, which computes outputs for sequences of tokens."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from albert.core.errors import UserError
from albert.data.sequences import LENGTH_STEP, SEQUENCE_KEYS, TokenSequence, padded
from albert.inference.folders import ModelFolder
from albert.prediction.model import Head, ModelOptions, make_predict_fn
from albert.prediction.session import Output, PredictSession, placeholders
from albert.settings.engines import TENSORFLOW


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
        """Builds the graph and reads the weights; raises a `UserError` if they do not match.

        Args:
          options: sequences per example if the head takes several, otherwise 0.
          trims: whether batches may be padded only to their longest sequence.
        """
        self._path, self._process = folder.path, os.getpid()
        self._options, self._trims, self._batch_size = options, trims, batch_size
        self._longest = folder.value("max_seq_length")
        self._length_step = LENGTH_STEP if folder.engine == TENSORFLOW else 1
        shape = [None, options, None] if options else [None, None]
        specs = {name: tf.TensorSpec(shape, tf.int32) for name in SEQUENCE_KEYS}
        predict_fn = make_predict_fn(folder.config, head, ModelOptions(engine=folder.engine))
        self._session = PredictSession(predict_fn, placeholders(specs))
        self._session.load(folder.checkpoint)

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
        columns = zip(SEQUENCE_KEYS, zip(*rows, strict=True), strict=True)
        outputs, scores = self._session.run_all(
            {name: np.array(values, np.int32).reshape(shape) for name, values in columns}
        )
        for name, values in scores.items():
            if values.dtype.kind == "f" and not np.isfinite(values).all():
                raise UserError(
                    f"{self._path}: {name} of a text is not finite (NaN or infinite) because the "
                    "weights are too large; use another model"
                )
        return outputs
