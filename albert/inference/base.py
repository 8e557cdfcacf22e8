"""The base classes of loaded models: embeddings of whole texts, and spans in texts."""

from __future__ import annotations

import abc
import functools
import html
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from albert.core.errors import UserError
from albert.data.sequences import sequences_of
from albert.inference import arguments
from albert.inference.folders import ModelFolder
from albert.inference.session import ModelSession
from albert.prediction.model import Encode, HeadOutput
from albert.report.spans import Span

POOLINGS = ("mean", "cls")
# The smallest divisor of a vector in `normalized`, as in PyTorch.
_SMALLEST_NORM = 1e-12


def table(heads: Sequence[str], rows: Iterable[Sequence[object]], caption: str = "") -> str:
    """Returns a table as HTML, with all texts escaped."""
    cells = ("".join(f"<td>{html.escape(_as_text(value))}</td>" for value in row) for row in rows)
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    head = "".join(f"<th>{html.escape(name)}</th>" for name in heads)
    title = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    return f"<table>{title}<tr>{head}</tr>{body}</table>"


def _as_text(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def pooled_states(states: tf.Tensor, mask: tf.Tensor) -> dict[str, tf.Tensor]:
    """Returns a vector per text for each pooling in `POOLINGS`, float32 [B, H].

    The mean is over all tokens of the text, including [CLS] and [SEP], as in sentence-transformers.
    The last hidden states are [B, S, H]; `mask`, int32 [B, S], is 1 for tokens and 0 for padding.
    """
    weights = tf.cast(mask, tf.float32)[:, :, tf.newaxis]
    mean = tf.reduce_sum(states * weights, axis=1) / tf.reduce_sum(weights, axis=1)
    return {"mean": mean, "cls": states[:, 0]}


def normalized(vectors: np.ndarray) -> np.ndarray:
    """Returns vectors [..., H] divided by their Euclidean norms."""
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.maximum(norms, _SMALLEST_NORM)


class SentenceEncoder:
    """Base class of loaded models, with the embeddings of their encoder."""

    folder: ModelFolder

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.folder}>"

    def encode(
        self,
        texts: Iterable[str],
        pooling: str | None = None,
        normalize: bool | None = None,
        batch_size: int = 32,
    ) -> np.ndarray:
        """Returns a vector per text, float32 [N, H], in the order of the texts.

        Texts that are longer than the model's `max_seq_length` are truncated; a warning counts
        them. The first call builds the encoder's graph and reads its weights.

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
        checked = [(text,) for text in arguments.texts(texts)]
        longest = self.folder.value("max_seq_length")
        sequences = sequences_of(checked, self.folder.tokenizer, longest)
        examples = [[sequence] for sequence in sequences]
        vectors = np.empty([len(examples), self.folder.config.hidden_size], np.float32)
        for number, output in self._pooling_session.run(examples, batch_size=batch_size):
            vectors[number] = output[pooling]
        return normalized(vectors) if normalize else vectors

    @functools.cached_property
    def _pooling_session(self) -> ModelSession:
        return ModelSession(self.folder, _head)


def _head(encode: Encode, features: Mapping[str, tf.Tensor], is_training: bool) -> HeadOutput:
    del is_training
    states = encode(features).get_sequence_output()
    return HeadOutput(None, pooled_states(states, features["input_mask"]))


class SpanFinder(SentenceEncoder, abc.ABC):
    """A model that finds spans with its labels in texts of any length."""

    folder: ModelFolder
    labels: Sequence[str]

    def find(self, text: str) -> list[Span]:
        """Returns the spans of a text, in order."""
        (spans,) = self.find_all([text])
        return spans

    @abc.abstractmethod
    def find_all(
        self, texts: Iterable[str], pause: Callable[[], None] | None = None
    ) -> list[list[Span]]:
        """Returns the spans of texts, in batches of all their windows.

        `pause` is called before each window; it may raise. Without it, windows run in batches.
        """
