"""Rows of Parquet and Arrow files, which need pyarrow; only some are in memory at a time."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from albert.core.errors import UserError, optional
from albert.core.text import one_line

# The formats by the first characters of a file; the last one is a stream, as `datasets` saves it.
_PARQUET, _FILE = "PAR1", "ARROW1"
FORMATS = {_PARQUET: "Parquet", _FILE: "Arrow", "\xff\xff\xff\xff": "Arrow"}
_AT_ONCE = 4096


@contextlib.contextmanager
def _opened(
    path: str, mark: str, columns: Sequence[str] | None = None
) -> Iterator[tuple[list[str], Iterable[Any]]]:
    """Opens a file: the names of its columns, and batches of rows."""
    with optional("pyarrow", why=f"{path} is a {FORMATS[mark]} file, but "):
        from pyarrow import ArrowException, OSFile, ipc, parquet
    try:
        if mark == _PARQUET:
            with parquet.ParquetFile(path) as file:
                yield file.schema_arrow.names, file.iter_batches(_AT_ONCE, columns=columns)
        else:
            with OSFile(path) as file:
                # A file has a stream after its mark and padding.
                file.seek(8 if mark == _FILE else 0)
                stream = ipc.open_stream(file)
                yield stream.schema.names, stream
    except (ArrowException, OSError) as e:
        raise UserError(f"{path} cannot be read as {FORMATS[mark]}: {one_line(str(e))}") from e


def read_columns(path: str, mark: str = _PARQUET) -> list[str]:
    """Returns the names of the columns; raises a `UserError` if the file or pyarrow is unusable."""
    with _opened(path, mark) as (names, _):
        return list(names)


def read_rows(
    path: str, mark: str = _PARQUET, columns: Sequence[str] | None = None
) -> Iterator[dict[str, Any]]:
    """Yields the rows, with values by column, all or some; raises as `read_columns` does."""
    with _opened(path, mark, columns) as (_, batches):
        for batch in batches:
            for start in range(0, batch.num_rows, _AT_ONCE):
                yield from batch.slice(start, _AT_ONCE).to_pylist()
