"""What prediction needs of its features besides the model's inputs: where tokens lie in the text.

On disk it is the "left" file, a NumPy archive of columns, loaded without pickles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from squad.features import FIRST_UNIQUE_ID, Window

Columns = dict[str, np.ndarray]


class PredictionFeature(NamedTuple):
    """What prediction needs to know of a feature besides the model's inputs.

    Attributes:
      unique_id, example_index: as in `InputFeatures`.
      doc_offset: position of the window's first token in the feature.
      starts, ends: int32, first and last character of each token of the window.
      max_context: bool, whether the window gives the token its maximum context.
    """

    unique_id: int
    example_index: int
    doc_offset: int
    starts: np.ndarray
    ends: np.ndarray
    max_context: np.ndarray


def columns_of(windows: Sequence[Window]) -> Columns:
    """Columns with a row a window, and others, end to end, with a row a token."""
    numbers = {
        "example_index": [w.example_index for w in windows],
        "doc_offset": [w.doc_offset for w in windows],
        "num_tokens": [len(w.max_context) for w in windows],
    }
    empty = np.zeros(0, np.int32)
    return {
        **{key: np.array(values, np.int32) for key, values in numbers.items()},
        "starts": np.concatenate([empty, *(w.paragraph.starts[w.begin : w.end] for w in windows)]),
        "ends": np.concatenate([empty, *(w.paragraph.ends[w.begin : w.end] for w in windows)]),
        "max_context": np.concatenate([empty.astype(bool), *(w.max_context for w in windows)]),
    }


def joined(parts: Sequence[Columns]) -> Columns:
    """The columns of parts, one after the other; there is at least one part."""
    return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}


def write_columns(path: str, columns: Columns) -> None:
    """Writes the left file."""
    with open(path, "wb") as file:
        np.savez(file, **columns)


def read_columns(path: str) -> Columns:
    """Reads the left file."""
    with np.load(path, allow_pickle=False) as columns:
        return dict(columns)


def prediction_features(columns: Columns) -> Iterator[PredictionFeature]:
    """The rows of the columns, a feature each, in order."""
    end = 0
    rows = zip(columns["example_index"], columns["doc_offset"], columns["num_tokens"], strict=True)
    for number, (example_index, doc_offset, num_tokens) in enumerate(rows):
        start, end = end, end + num_tokens
        yield PredictionFeature(
            FIRST_UNIQUE_ID + number,
            int(example_index),
            int(doc_offset),
            *(columns[key][start:end] for key in ("starts", "ends", "max_context")),
        )
