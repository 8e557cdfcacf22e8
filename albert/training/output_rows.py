"""A model's outputs for many examples, on disk."""

from __future__ import annotations

import array
import contextlib
import io
import os
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np

from albert.core.errors import reporting

Output = dict[str, np.ndarray]
# Bytes before the header of NumPy's format; the last two are its length.
_BEFORE = 10


def pack(batch: Output) -> np.ndarray:
    """Returns the outputs of a batch as bytes, row by row, with the names, types and shapes."""
    fields = [(name, values.dtype, values.shape[1:]) for name, values in batch.items()]
    rows = np.empty(len(next(iter(batch.values()))), fields)
    for name, values in batch.items():
        rows[name] = values
    file = io.BytesIO()
    np.save(file, rows, allow_pickle=False)
    return np.frombuffer(file.getbuffer(), np.uint8)


class OutputRows(Sequence[Output]):
    """The outputs for every example, in a temporary file; its batches may have different shapes."""

    def __init__(self, folder: str, batch_size: int, places: np.ndarray | int):
        """Creates the file.

        Args:
          folder: folder of the file.
          batch_size: examples per batch.
          places: the position at which each example arrives, or the number of examples if they
            arrive in order.
        """
        self._folder, self._batch_size = folder, batch_size
        self._places = range(places) if isinstance(places, int) else places
        # Where each batch begins, and the form of its rows; few forms are different.
        self._begins, self._types = array.array("q"), list[np.dtype]()
        self._known: dict[bytes, np.dtype] = {}
        with self._storing():
            # The file disappears with this object.
            self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115

    def add(self, packed: np.ndarray) -> None:
        """Adds the next batch, from `pack`.

        Raises:
          UserError: the disk is full.
        """
        header = packed[
            : _BEFORE + int.from_bytes(packed[_BEFORE - 2 : _BEFORE], "little")
        ].tobytes()
        if header not in self._known:
            content = io.BytesIO(header)
            np.lib.format.read_magic(content)
            self._known[header] = np.lib.format.read_array_header_1_0(content)[2]
        self._types.append(self._known[header])
        with self._storing():
            self._begins.append(self._file.tell() + len(header))
            self._file.write(packed.data)

    def flush(self) -> None:
        """Makes all batches readable; raises as `add` does."""
        with self._storing():
            self._file.flush()

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, index: Any) -> Any:
        batch, number = divmod(int(self._places[index]), self._batch_size)
        dtype = self._types[batch]
        begin = self._begins[batch] + number * dtype.itemsize
        content = os.pread(self._file.fileno(), dtype.itemsize, begin)
        row = np.frombuffer(content, dtype)[0]
        return {name: row[name] for name in dtype.names or ()}

    def _storing(self) -> contextlib.AbstractContextManager[None]:
        return reporting(f"outputs of the model cannot be stored in {self._folder}")
