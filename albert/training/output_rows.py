"""A model's outputs for many examples."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from albert.prediction.session import Output


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
    """The outputs for every example, as compact arrays; batches may have different shapes."""

    def __init__(self, batch_size: int, positions: np.ndarray | int):
        """Begins without batches.

        Args:
          positions: the position at which each example arrives, or the number of examples if they
            arrive in order.
        """
        self._batch_size = batch_size
        self._positions = range(positions) if isinstance(positions, int) else positions
        self._batches = list[np.ndarray]()

    def add(self, packed: np.ndarray) -> None:
        """Adds the next batch, from `pack`."""
        self._batches.append(np.load(io.BytesIO(packed.data), allow_pickle=False))

    def __len__(self) -> int:
        return len(self._positions)

    def __getitem__(self, index: Any) -> Any:
        batch, number = divmod(int(self._positions[index]), self._batch_size)
        row = self._batches[batch][number]
        return {name: row[name] for name in row.dtype.names}
