"""The file of token positions (--predict_feature_left_file), which NumPy can read, too.

It is an uncompressed archive with one array per column. Most columns have a value for each token,
so that memory may not hold them.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from typing import IO, NamedTuple

import numpy as np

from albert.tasks.squad.features import FIRST_UNIQUE_ID, Window

TokenColumns = dict[str, np.ndarray]

# The columns with a value for each window, and those with a value for each of its tokens.
_OF_WINDOWS = ("example_index", "doc_offset", "num_tokens")
_OF_TOKENS = ("starts", "ends", "max_context")
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
    rows = zip(*(columns[key].tolist() for key in _OF_WINDOWS), strict=True)
    for number, (example_index, doc_offset, num_tokens) in enumerate(rows, start=first):
        start, end = end, end + num_tokens
        values = (columns[key][start:end] for key in _OF_TOKENS)
        yield PredictionFeature(FIRST_UNIQUE_ID + number, example_index, doc_offset, *values)


@contextlib.contextmanager
def writing_places(
    file: str | IO[bytes], folder: str | None = None
) -> Iterator[Callable[[TokenColumns], None]]:
    """Yields a function that adds the columns of some windows to a file of token positions.

    The file is complete at the end of the `with` block. Until then, the columns are in temporary
    files in the folder, because their lengths precede them.
    """
    with contextlib.ExitStack() as stack:
        columns = {
            key: (stack.enter_context(tempfile.TemporaryFile(dir=folder)), np.dtype(kind))
            for keys, kinds in ((_OF_WINDOWS, "iii"), (_OF_TOKENS, "ii?"))
            for key, kind in zip(keys, kinds, strict=True)
        }

        def add(some: TokenColumns) -> None:
            for key, (column, _) in columns.items():
                column.write(some[key].tobytes())

        yield add
        # As `np.savez` writes it.
        with zipfile.ZipFile(file, "w") as archive:
            for key, (column, dtype) in columns.items():
                shape = (column.tell() // dtype.itemsize,)
                header = {"descr": dtype.str, "fortran_order": False, "shape": shape}
                column.seek(0)
                with archive.open(f"{key}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array_header_1_0(member, header)
                    shutil.copyfileobj(column, member)


class TokenPositions:
    """The features in a file of token positions, which is read for every pass."""

    def __init__(self, file: str | IO[bytes]):
        """Opens the file."""
        self._archive = zipfile.ZipFile(file)

    def __iter__(self) -> Iterator[PredictionFeature]:
        with contextlib.ExitStack() as stack:
            members = {
                key: stack.enter_context(self._archive.open(f"{key}.npy"))
                for key in (*_OF_WINDOWS, *_OF_TOKENS)
            }
            types = {key: _read_header(member) for key, member in members.items()}

            def read(keys: Sequence[str], count: int) -> TokenColumns:
                return {
                    key: np.frombuffer(members[key].read(count * types[key].itemsize), types[key])
                    for key in keys
                }

            number = 0
            while len((columns := read(_OF_WINDOWS, _WINDOWS))["num_tokens"]):
                columns |= read(_OF_TOKENS, int(columns["num_tokens"].sum()))
                yield from prediction_features(columns, number)
                number += len(columns["num_tokens"])


def _read_header(member: IO[bytes]) -> np.dtype:
    """Reads the header of an array and returns the type of its values."""
    np.lib.format.read_magic(member)
    return np.lib.format.read_array_header_1_0(member)[2]
