"""Where the tokens of features lie in the text: what prediction needs besides the model's inputs.

On disk it is the "left" file, a NumPy archive of columns, loaded without pickles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from albert.tasks.squad.features import FIRST_UNIQUE_ID, Window

TokenColumns = dict[str, np.ndarray]


class PredictionFeature(NamedTuple):
    """What prediction needs to know of a feature besides the model's inputs.

    Attributes:
      unique_id, example_index: numbers of the feature, from 1000000000, and of the question.
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


def columns_of(windows: Sequence[Window]) -> TokenColumns:
    """Returns columns with a row a window, and others, end to end, with a row a token."""
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


def join_columns(parts: Sequence[TokenColumns]) -> TokenColumns:
    """Joins the columns of one or more parts, one after the other."""
    return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}


def write_columns(path: str, columns: TokenColumns) -> None:
    """Writes the left file."""
    with open(path, "wb") as file:
        np.savez(file, **columns)


def read_columns(path: str) -> TokenColumns:
    """Reads the left file."""
    with np.load(path, allow_pickle=False) as columns:
        return dict(columns)


def prediction_features(columns: TokenColumns) -> Iterator[PredictionFeature]:
    """Yields the rows of the columns, a feature each, in order."""
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
