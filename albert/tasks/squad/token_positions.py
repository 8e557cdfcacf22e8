"""The file of token positions (--predict_feature_left_file), which NumPy can read, too.

It is an uncompressed archive with one array per column. Most columns have a value for each token,
so that memory may not hold them.
"""

from __future__ import annotations

import contextlib
import os
import zipfile
from collections.abc import Callable, Iterator, Sequence
from typing import IO, NamedTuple

import numpy as np

from albert.core.npz import writing_npz
from albert.tasks.squad.features import FIRST_UNIQUE_ID, Window

TokenColumns = dict[str, np.ndarray]

# The columns with a value for each window, and those with a value for each of its tokens.
_WINDOW_COLUMNS = ("example_index", "doc_offset", "num_tokens")
_TOKEN_COLUMNS = ("starts", "ends", "max_context")
# Windows to read at a time.
_WINDOWS = 256


class PredictionFeature(NamedTuple):
    """The values that prediction needs in addition to the model's inputs.

    Attributes:
      unique_id, example_index: number of the feature, from 1000000000, and number of the question.
      doc_offset: position of the window's first token in the feature.
      starts, ends: int32, first and last character of each token of the window.
      max_context: bool, whether no other window gives the token more context.
    """

    unique_id: int
    example_index: int
    doc_offset: int
    starts: np.ndarray
    ends: np.ndarray
    max_context: np.ndarray


def columns_of(windows: Sequence[Window]) -> TokenColumns:
    """Returns columns with one row per window, and concatenated columns with one row per token."""
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


def prediction_features(columns: TokenColumns, first: int = 0) -> Iterator[PredictionFeature]:
    """Yields the features that the columns describe, numbered from `first`."""
    end = 0
    rows = zip(*(columns[key].tolist() for key in _WINDOW_COLUMNS), strict=True)
    for number, (example_index, doc_offset, num_tokens) in enumerate(rows, start=first):
        start, end = end, end + num_tokens
        values = (columns[key][start:end] for key in _TOKEN_COLUMNS)
        yield PredictionFeature(FIRST_UNIQUE_ID + number, example_index, doc_offset, *values)


@contextlib.contextmanager
def writing_positions(path: str) -> Iterator[Callable[[TokenColumns], None]]:
    """Yields a function that adds the columns of some windows to a file; see `writing_npz`."""
    with writing_npz(path, os.path.dirname(path)) as append:

        def add(columns: TokenColumns) -> None:
            for key, values in columns.items():
                append(key, values)

        # So that a file without windows has all columns.
        add(columns_of([]))
        yield add


class TokenPositions:
    """The features in a file of token positions, which is read for every pass."""

    def __init__(self, path: str):
        self._archive = zipfile.ZipFile(path)

    def __iter__(self) -> Iterator[PredictionFeature]:
        with contextlib.ExitStack() as stack:
            members = {
                key: stack.enter_context(self._archive.open(f"{key}.npy"))
                for key in (*_WINDOW_COLUMNS, *_TOKEN_COLUMNS)
            }
            types = {key: _read_header(member) for key, member in members.items()}

            def read(keys: Sequence[str], count: int) -> TokenColumns:
                return {
                    key: np.frombuffer(members[key].read(count * types[key].itemsize), types[key])
                    for key in keys
                }

            number = 0
            while len((columns := read(_WINDOW_COLUMNS, _WINDOWS))["num_tokens"]):
                columns |= read(_TOKEN_COLUMNS, int(columns["num_tokens"].sum()))
                yield from prediction_features(columns, number)
                number += len(columns["num_tokens"])


def _read_header(member: IO[bytes]) -> np.dtype:
    """Reads the header of an array and returns the type of its values."""
    np.lib.format.read_magic(member)
    return np.lib.format.read_array_header_1_0(member)[2]
