"""Embeddings of texts: the encoder's states of their tokens, or its pooled output."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from albert.core.errors import FlagError, UserError
from albert.data.sequences import sequences_of
from albert.inference import arguments
from albert.inference.base import SentenceEncoder, pooled_states
from albert.inference.folders import ModelFolder
from albert.inference.session import ModelSession
from albert.prediction.model import Encode, Head, HeadOutput

# Approximate limit on the bytes of embeddings that wait until those of shorter texts are computed.
MOST_WAITING = 256 << 20


class Embedding(NamedTuple):
    """The encoder's outputs for a text or a pair of texts.

    Attributes:
      tokens: tokens of the text, including special tokens.
      layers: states by number of the layer, float32 [tokens, H].
      pooled: the pooled output, float32 [H]; None if it was not requested.
      sentence: the mean or [CLS] of the last layer, float32 [H]; None if it was not requested.
    """

    tokens: list[str]
    layers: dict[int, np.ndarray]
    pooled: np.ndarray | None
    sentence: np.ndarray | None = None


class Embedder(SentenceEncoder):
    """An encoder that returns embeddings."""

    def __init__(
        self,
        folder: ModelFolder,
        layers: Sequence[int],
        pooled: bool,
        batch_size: int = 32,
        pooling: str = "",
    ):
        """Loads the encoder of a model for any task; raises the errors of `ModelSession`.

        Args:
          layers: numbers of the layers to return; negative numbers count from the last layer, -1.
            For a number that the model does not have, a `FlagError` is raised.
          pooling: one of `POOLINGS`, for one vector per text from the last layer; "" for none.
        """
        self.folder, self._tokenizer = folder, folder.tokenizer
        self._longest = folder.value("max_seq_length")
        self._layers = list(layers)
        width = folder.config.hidden_size * (len(self._layers) or 1) * self._longest
        self._at_once = max(MOST_WAITING // (width * np.float32().nbytes), batch_size)
        head = _make_head(self._layers, pooled, pooling)
        self._session = ModelSession(folder, head, batch_size=batch_size)

    def embed(self, pairs: str | Iterable[str | Sequence[str]]) -> list[Embedding]:
        """Returns the embeddings of texts or pairs of texts, in their order; see `stream`."""
        return list(self.stream(pairs))

    def stream(self, pairs: str | Iterable[str | Sequence[str]]) -> Iterator[Embedding]:
        """Yields the embeddings of texts or pairs of texts, in their order.

        Reads only a limited number of texts at a time, and batches texts of similar length. Raises
        a `UserError` for other elements.
        """
        checked = map(_one_or_two, [pairs] if isinstance(pairs, str) else pairs)
        while some := list(islice(checked, self._at_once)):
            yield from self._embed_at_once(some)

    def _embed_at_once(self, pairs: Sequence[Sequence[str]]) -> Iterator[Embedding]:
        tokenizer = self._tokenizer
        sequences = sequences_of(pairs, tokenizer, self._longest)
        waiting, first = {}, 0
        for number, output in self._session.run([[sequence] for sequence in sequences]):
            # A copy lets the memory of the batch be freed.
            length = len(sequences[number].ids)
            waiting[number] = Embedding(
                tokenizer.convert_ids_to_tokens(sequences[number].ids),
                {layer: output[_name(layer)][:length].copy() for layer in self._layers},
                output.get("pooled"),
                output.get("sentence"),
            )
            while first in waiting:
                yield waiting.pop(first)
                first += 1


def _one_or_two(pair: str | Iterable[str]) -> list[str]:
    texts = arguments.texts((pair,) if isinstance(pair, str) else pair)
    if len(texts) not in (1, 2):
        raise UserError(f"a text or a pair of texts is needed, not {pair!r:.40}")
    return texts


def _make_head(layers: Sequence[int], pooled: bool, pooling: str) -> Head:
    """Returns a head that outputs the encoder's states in prediction."""

    def head(encode: Encode, features: Mapping[str, tf.Tensor], is_training: bool) -> HeadOutput:
        del is_training
        encoder = encode(features)
        states = encoder.get_all_encoder_layers()
        for layer in layers:
            if not -len(states) <= layer < len(states):
                raise FlagError(
                    f"there is no layer {layer}: the model has {len(states)} layers, numbered from "
                    "0, or from -1 backwards from the last"
                )
        outputs = {_name(layer): states[layer] for layer in layers}
        if pooled:
            outputs["pooled"] = encoder.get_pooled_output()
        if pooling:
            outputs["sentence"] = pooled_states(states[-1], features["input_mask"])[pooling]
        return HeadOutput(None, outputs)

    return head


def _name(layer: int) -> str:
    return f"layer {layer}"
