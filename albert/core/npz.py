"""NumPy's archives (.npz) of arrays that may be larger than the memory."""

from __future__ import annotations

import contextlib
import math
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from typing import IO

import numpy as np


@contextlib.contextmanager
def writing_npz(
    file: str | IO[bytes], folder: str | None = None
) -> Iterator[Callable[[Mapping[str, np.ndarray]], None]]:
    """Yields a function that appends rows to arrays of an archive, by name.

    The first rows determine the type and the shape of a row. The archive is complete at the end of
    the `with` block. Until then, arrays are in temporary files in the folder, because their lengths
    precede them.
    """
    arrays: dict[str, tuple[IO[bytes], np.ndarray]] = {}
    with contextlib.ExitStack() as stack:

        def add(columns: Mapping[str, np.ndarray]) -> None:
            for name, rows in columns.items():
                if name not in arrays:
                    arrays[name] = stack.enter_context(tempfile.TemporaryFile(dir=folder)), rows[:0]
                arrays[name][0].write(rows.tobytes())

        yield add
        # As `np.savez` writes it.
        with zipfile.ZipFile(file, "w") as archive:
            for name, (content, empty) in arrays.items():
                shape = empty.shape[1:]
                count = content.tell() // (math.prod(shape) * empty.itemsize)
                content.seek(0)
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    header = {"descr": empty.dtype.str, "fortran_order": False}
                    np.lib.format.write_array_header_1_0(
                        member, {**header, "shape": (count, *shape)}
                    )
                    shutil.copyfileobj(content, member, 1 << 20)
