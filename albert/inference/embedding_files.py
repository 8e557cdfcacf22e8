"""Files of embeddings: JSON lines like those of Google's extract_features.py, or NumPy's npz."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import numpy as np

from albert.core.files import open_atomically
from albert.core.npz import writing_npz
from albert.inference.embedding import Embedding


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
    """Returns the vectors of a whole text, by their names in the files."""
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
            for layer, states in text.layers.items():
                add(f"layer_{layer}", states)
            for name, vector in _vectors(text).items():
                add(name, vector[np.newaxis])
        add("tokens", np.array(tokens))
        add("lengths", np.array(lengths, np.int64))
