"""The base classes of loaded models, the session in which they compute outputs, and its inputs.

A `SentenceEncoder` embeds whole texts, and a `SpanFinder` finds spans in texts.
"""

from __future__ import annotations

import abc
import functools
import numbers
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import tensorflow.compat.v1 as tf

from albert.checkpoints.model_folder import quantized_encoder, refuse_quantized
from albert.core.errors import FlagError, UserError
from albert.devices import device
from albert.inference.folders import OpenModel
from albert.precision import configuration, conversion
from albert.prediction.model import Encode, Head, HeadOutput, ModelOptions, make_predict_fn
from albert.prediction.session import Output, PredictSession, placeholders
from albert.records.sequences import LENGTH_STEP, SEQUENCE_KEYS, TokenSequence, padded, sequences_of
from albert.report.spans import Span
from albert.settings.engines import TENSORFLOW
from albert.tables.rows import texts_of

Item = TypeVar("Item")


class ModelSession:
    """The graph of an encoder with a head, and its weights."""

    def __init__(
        self,
        folder: OpenModel,
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
        if folder.engine == TENSORFLOW:
            refuse_quantized(folder.path)
        self._path = folder.path
        self._options, self._trims, self._batch_size = options, trims, batch_size
        self._longest = folder.value("max_seq_length")
        self._length_step = LENGTH_STEP if folder.engine == TENSORFLOW else 1
        shape = [None, options, None] if options else [None, None]
        specs = {name: tf.TensorSpec(shape, tf.int32) for name in SEQUENCE_KEYS}
        computed = ModelOptions(
            engine=folder.engine,
            precision=folder.precision,
            quantized=quantized_encoder(folder.path),
        )
        predict_fn = make_predict_fn(folder.config, head, computed)
        if folder.engine == TENSORFLOW:
            # In bfloat16, a head would round its scores to three digits.
            low = folder.low and configuration.in_encoder(folder.low)
            predict_fn = conversion.convert(predict_fn, low, device.kind())
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
          UserError: an output is not finite, or as in `check_not_forked`.
        """
        size = 1 if pause else batch_size or self._batch_size
        lengths = [max(len(sequence.ids) for sequence in example) for example in examples]
        order = sorted(range(len(examples)), key=lengths.__getitem__)
        batches = [order[start : start + size] for start in range(0, len(order), size)]
        values = (self._values([examples[i] for i in batch], pause) for batch in batches)
        for batch, (outputs, scores) in zip(batches, self._session.run_all(values), strict=True):
            self._check_finite(scores)
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

    def _values(
        self, examples: Sequence[Sequence[TokenSequence]], pause: Callable[[], None] | None
    ) -> dict[str, np.ndarray]:
        """Returns the values of the inputs for a batch of examples; the last one is the longest."""
        if pause:
            pause()
        length = self._length(max(len(sequence.ids) for sequence in examples[-1]))
        rows = [padded(sequence, length) for example in examples for sequence in example]
        shape = [-1, self._options, length] if self._options else [-1, length]
        columns = zip(SEQUENCE_KEYS, zip(*rows, strict=True), strict=True)
        return {name: np.array(values, np.int32).reshape(shape) for name, values in columns}

    def _check_finite(self, scores: Output) -> None:
        for name, values in scores.items():
            if values.dtype.kind == "f" and not np.isfinite(values).all():
                raise UserError(
                    f"{self._path}: {name} of a text is not finite (NaN or infinite) because the "
                    "weights are too large; use another model"
                )


POOLINGS = ("mean", "cls")
# The smallest divisors of a vector in `normalized`, as in PyTorch, and of a sum of states.
_SMALLEST_NORM, _SMALLEST_COUNT = 1e-12, 1e-9


def _as_list(values: object, needed: str) -> list[Any]:
    """Returns an iterable's elements; a `UserError` for a text or no iterable asks for `needed`."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise UserError(f"{needed} is needed, not {values!r:.40}")
    return list(values)


def checked_text(value: object, name: str) -> str:
    """Returns a text; raises a `UserError` for any other value."""
    if not isinstance(value, str):
        raise UserError(f"{name} is {value!r:.40}, not a string")
    return value


def checked_texts(values: object) -> list[str]:
    """Returns the texts of an iterable; raises the errors of `_as_list` and `checked_text`."""
    elements = _as_list(values, "a list of texts")
    return [checked_text(value, f"text {number}") for number, value in enumerate(elements)]


def checked_tuples(values: object, *names: str) -> list[tuple[Any, ...]]:
    """Returns an iterable's elements; raises a `UserError` unless each has one value per name."""
    needed = f"({', '.join(names)})"
    checked = []
    for number, value in enumerate(_as_list(values, f"a list of {needed}")):
        one = () if isinstance(value, str) or not isinstance(value, Iterable) else tuple(value)
        if len(one) != len(names):
            raise UserError(f"{needed} is needed, but element {number} is {value!r:.40}")
        checked.append(one)
    return checked


def grouped(items: Iterable[Item], size: Callable[[Item], int], most: int) -> Iterator[list[Item]]:
    """Yields groups of items; the sizes of each group's items are at most `most` together.

    A larger item is a separate group.
    """
    group, total = list[Item](), 0
    for item in items:
        if group and total + size(item) > most:
            yield group
            group, total = [], 0
        group.append(item)
        total += size(item)
    if group:
        yield group


def normalized(vectors: np.ndarray) -> np.ndarray:
    """Returns vectors [..., H] divided by their Euclidean norms."""
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.maximum(norms, _SMALLEST_NORM)


class SentenceEncoder:
    """Base class of loaded models, with the embeddings of their encoder."""

    folder: OpenModel

    def __repr__(self) -> str:
        return f"<{type(self).__name__} in {self.folder.path!r}>"

    def encode(
        self,
        texts: Iterable[str],
        pooling: str | None = None,
        normalize: bool | None = None,
        batch_size: int = 32,
    ) -> np.ndarray:
        """Returns a vector per text, float32 [N, H], in the order of the texts.

        The folder's default prompt of sentence-transformers is put before each text.
        Texts that are longer than the model's `max_seq_length` are truncated; a warning counts
        them. The first call builds the encoder's graph and reads its weights.

            >>> import albert
            >>> model = albert.load("demo_output/run-1")
            >>> vectors = model.encode(["A river.", "An old bridge."], normalize=True)
            >>> print(len(vectors), f"{vectors[0] @ vectors[0]:.3f}")
            2 1.000

        Args:
          pooling: "mean" for the mean of the last hidden states of all tokens, including [CLS] and
            [SEP]; "cls" for the last hidden state of [CLS]. By default, what the model's folder
            says if sentence-transformers has written it, otherwise "mean".
          normalize: whether to divide each vector by its Euclidean norm; the default is similar,
            otherwise False.
          batch_size: texts per batch; a batch has texts of similar length.

        Raises:
          UserError: `texts` is not a list of strings, or an argument has another wrong value.
        """
        about = self.folder.description
        pooling = about.get("pooling", "mean") if pooling is None else pooling
        normalize = about.get("normalize", False) if normalize is None else normalize
        if pooling not in POOLINGS:
            raise UserError(f"the pooling {pooling!r} is not one of {', '.join(POOLINGS)}")
        if not isinstance(batch_size, numbers.Integral) or batch_size < 1:
            raise UserError(f"a batch_size of at least 1 is needed, not {batch_size!r:.40}")
        checked = [(about.get("prompt", "") + text,) for text in checked_texts(texts)]
        longest = self.folder.value("max_seq_length")
        sequences = sequences_of(checked, self.folder.tokenizer, longest)
        examples = [[sequence] for sequence in sequences]
        vectors = np.empty([len(examples), self.folder.config.hidden_size], np.float32)
        for number, output in self._pooling_session.run(examples, batch_size=batch_size):
            vectors[number] = output[pooling]
        return normalized(vectors) if normalize else vectors

    @functools.cached_property
    def _pooling_session(self) -> ModelSession:
        return ModelSession(self.folder, embedding_head(skipped=prompt_length(self.folder)))


def prompt_length(folder: OpenModel) -> int:
    """Returns the number of tokens, from [CLS] on, that the pooling of a model leaves out."""
    about = folder.description
    if about.get("include_prompt", True) or not (prompt := about.get("prompt")):
        return 0
    longest = folder.value("max_seq_length")
    return len(sequences_of([(prompt,)], folder.tokenizer, longest)[0].ids) - 1


def embedding_head(
    layers: Sequence[int] = (),
    pooled: bool = False,
    poolings: Sequence[str] = POOLINGS,
    skipped: int = 0,
) -> Head:
    """Returns a head with states of layers, the pooled output, and vectors; see `Embedder`.

    The first `skipped` tokens, those of a prompt, do not count in the vectors.
    """

    def head(encode: Encode, features: Mapping[str, tf.Tensor], is_training: bool) -> HeadOutput:
        encoder = encode(features)
        states = encoder.get_all_encoder_layers()
        for layer in layers:
            if not -len(states) <= layer < len(states):
                raise FlagError(
                    f"there is no layer {layer}: the model has {len(states)} layers, numbered from "
                    "0, or from -1 backwards from the last"
                )
        outputs = {f"layer {layer}": states[layer] for layer in layers}
        if pooled:
            outputs["pooled"] = encoder.get_pooled_output()
        # The mean is over all tokens, with [CLS] and [SEP], as in sentence-transformers.
        last, mask = states[-1][:, skipped:], features["input_mask"][:, skipped:, tf.newaxis]
        weights = tf.cast(mask, tf.float32)
        sums, count = tf.reduce_sum(last * weights, axis=1), tf.reduce_sum(weights, axis=1)
        vectors = {"mean": sums / tf.maximum(count, _SMALLEST_COUNT), "cls": last[:, 0]}
        return HeadOutput(None, {**outputs, **{name: vectors[name] for name in poolings}})

    return head


class SpanFinder(SentenceEncoder, abc.ABC):
    """A model that finds spans with its labels in texts of any length."""

    labels: Sequence[str]

    def find(self, text: str) -> list[Span]:
        """Returns the spans of a text, in order."""
        (spans,) = self.find_all([text])
        return spans

    def predict(self, data: object) -> list[list[Span]]:
        """Returns the spans of texts, or of a table's column `text`; raises a `UserError`."""
        return self.find_all(text for (text,) in texts_of(data, "text"))

    @abc.abstractmethod
    def find_all(
        self, texts: Iterable[str], pause: Callable[[], None] | None = None
    ) -> list[list[Span]]:
        """Returns the spans of texts, in batches of windows; for `pause` see `ModelSession.run`."""
