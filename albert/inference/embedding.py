"""Embeddings of texts: the encoder's states of their tokens, or its pooled output.

Their files are JSON lines like those of Google's extract_features.py, or NumPy's npz.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np

from albert.core.errors import UserError
from albert.core.files import open_atomically
from albert.core.npz import writing_npz
from albert.inference.base import (
    ModelSession,
    SentenceEncoder,
    checked_texts,
    embedding_head,
    normalized,
    prompt_length,
)
from albert.inference.folders import OpenModel
from albert.records.sequences import sequences_of
from albert.settings.engines import TENSORFLOW

# Approximate limit on the bytes of embeddings that are computed at once, short texts first.
MOST_WAITING = 256 << 20


class Embedding(NamedTuple):
    """The encoder's outputs for a text or a pair of texts.

    Attributes:
      tokens: including special tokens.
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
        folder: OpenModel,
        layers: Sequence[int],
        pooled: bool,
        batch_size: int = 32,
        pooling: str = "",
        normalize: bool = False,
        prompted: bool = False,
    ):
        """Loads the encoder of a model for any task; raises the errors of `ModelSession`.

        Args:
          layers: numbers of the layers to return; negative numbers count from the last layer, -1.
            For a number that the model does not have, a `FlagError` is raised.
          pooling: one of `POOLINGS`, for one vector per text from the last layer; "" for none.
          normalize: whether to divide these vectors by their Euclidean norms.
          prompted: whether to put the folder's default prompt of sentence-transformers before each
            text, which is then part of all outputs.

        Raises:
          UserError: the pooled output is requested, but the model has no pooler.
        """
        if pooled and not folder.description.get("has_pooler", True):
            raise UserError(f"{folder.path} has no pooler: request layers or a pooling instead")
        self._prompt = folder.description.get("prompt", "") if prompted else ""
        if set(layers) - {-1}:
            # Only TensorFlow returns the states of other layers.
            folder = folder._replace(engine=TENSORFLOW)
        self.folder, self._layers = folder, list(layers)
        self._pooling, self._normalize = pooling, normalize
        self._longest = folder.value("max_seq_length")
        width = folder.config.hidden_size * (len(self._layers) or 1) * self._longest
        self._at_once = max(MOST_WAITING // (width * np.float32().nbytes), batch_size)
        skipped = prompt_length(folder) if self._prompt else 0
        head = embedding_head(self._layers, pooled, [pooling] if pooling else [], skipped)
        self._session = ModelSession(folder, head, batch_size=batch_size)

    def embed(self, pairs: str | Iterable[str | Sequence[str]]) -> list[Embedding]:
        """Returns the embeddings of texts or pairs of texts, in their order; see `stream`."""
        return list(self.stream(pairs))

    def stream(self, pairs: str | Iterable[str | Sequence[str]]) -> Iterator[Embedding]:
        """Yields the embeddings of texts or pairs of texts, in their order.

        Reads only a limited number of texts at a time, and batches texts of similar length. Raises
        a `UserError` for other elements.
        """
        if not isinstance(pairs, Iterable):
            raise UserError(f"a list of texts or of pairs of texts is needed, not {pairs!r:.40}")
        checked = map(_one_or_two, [pairs] if isinstance(pairs, str) else pairs)
        while some := list(islice(checked, self._at_once)):
            yield from self._embed_at_once(some)

    def _embed_at_once(self, pairs: Sequence[Sequence[str]]) -> Iterator[Embedding]:
        tokenizer = self.folder.tokenizer
        prompted = [(self._prompt + first, *second) for first, *second in pairs]
        sequences = sequences_of(prompted, tokenizer, self._longest)
        outputs = self._session.outputs([[sequence] for sequence in sequences])
        for sequence, output in zip(sequences, outputs, strict=True):
            length, sentence = len(sequence.ids), output.get(self._pooling)
            yield Embedding(
                tokenizer.convert_ids_to_tokens(sequence.ids),
                {layer: output[f"layer {layer}"][:length] for layer in self._layers},
                output.get("pooled"),
                normalized(sentence) if self._normalize and sentence is not None else sentence,
            )


def _one_or_two(pair: str | Iterable[str]) -> list[str]:
    texts = checked_texts((pair,) if isinstance(pair, str) else pair)
    if len(texts) not in (1, 2):
        raise UserError(f"a text or a pair of texts is needed, not {pair!r:.40}")
    return texts


def write_json_lines(path: str, embedded: Iterable[Embedding]) -> None:
    """Writes one line per text, with `linex_index` and `features`.

    Each feature has its `token` and its `layers`. Each layer has its `index` and its `values`,
    rounded to 6 decimals. A line also has `pooled` and `sentence` if they were requested.
    """
    with open_atomically(path) as file:
        for number, text in enumerate(embedded):
            columns = [
                [f'{{"index": {layer}, "values": {row}}}' for row in _rows(states)]
                for layer, states in text.layers.items()
            ]
            features = ", ".join(
                f'{{"token": {json.dumps(token)}, "layers": [{", ".join(layers)}]}}'
                for token, *layers in zip(text.tokens, *columns, strict=True)
            )
            vectors = "".join(
                f', "{name}": {next(_rows(vector[np.newaxis]))}'
                for name, vector in _vectors(text).items()
            )
            file.write(f'{{"linex_index": {number}, "features": [{features}]{vectors}}}\n')


def _vectors(text: Embedding) -> dict[str, np.ndarray]:
    vectors = {"pooled": text.pooled, "sentence": text.sentence}
    return {name: vector for name, vector in vectors.items() if vector is not None}


def _rows(values: np.ndarray) -> Iterator[str]:
    """Yields the rows of an array [N, H] as JSON, in half the time that `json` takes."""
    form = f"[{', '.join(['%.6f'] * values.shape[1])}]"
    return (form % tuple(row) for row in values.tolist())


def write_npz(path: str, embedded: Iterable[Embedding]) -> None:
    """Writes arrays in which the tokens of all texts are concatenated.

    The arrays are `tokens`; `layer_-1` and so on, float32 [tokens, H]; `pooled` and `sentence`,
    float32 [texts, H]; and `lengths`, the number of tokens of each text.
    """
    tokens, lengths = [], []
    with open_atomically(path, "wb") as file, writing_npz(file) as add:
        for text in embedded:
            tokens += text.tokens
            lengths.append(len(text.tokens))
            add({f"layer_{layer}": states for layer, states in text.layers.items()})
            add({name: vector[np.newaxis] for name, vector in _vectors(text).items()})
        add({"tokens": np.array(tokens), "lengths": np.array(lengths, np.int64)})
