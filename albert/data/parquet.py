"""Rows of Parquet files, which need pyarrow; only some are in memory at a time."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from albert.core.errors import UserError, optional
from albert.core.text import one_line

# The first characters of a file.
MARK = "PAR1"
_AT_ONCE = 4096


@contextlib.contextmanager
def _opened(path: str) -> Iterator[Any]:
    with optional("pyarrow", why=f"{path} is a Parquet file, but "):
        from pyarrow import ArrowException, parquet
    try:
        with parquet.ParquetFile(path) as file:
            yield file
    except (ArrowException, OSError) as e:
        raise UserError(f"{path} cannot be read as Parquet: {one_line(str(e))}") from e


def read_columns(path: str) -> list[str]:
    """Returns the names of the columns; raises a `UserError` if the file or pyarrow is unusable."""
    with _opened(path) as file:
        return list(file.schema_arrow.names)


def read_rows(path: str, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
    """Yields the rows, with values by column, all or some; raises as `read_columns` does."""
    with _opened(path) as file:
        for batch in file.iter_batches(_AT_ONCE, columns=columns):
            yield from batch.to_pylist()
