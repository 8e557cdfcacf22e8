"""Rows of tab-separated files and of JSON lines, each with its place for messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from albert.core.errors import UserError
from albert.core.files import check_regular, parse_json


class SourceLine(NamedTuple):
    """A line of a file, counted from 1."""

    path: str
    line: int

    def error(self, reason: str) -> UserError:
        """Returns the error that says what is wrong with the line."""
        return UserError(f"{self.path}, line {self.line}: {reason}")


def read_lines(path: str) -> Iterator[tuple[SourceLine, str]]:
    """Yields the lines of a UTF-8 file without their ends; empty lines at the end are left out.

    A byte order mark at the beginning and a carriage return at the end of a line do not count.

    Raises:
      UserError: the file cannot be read or is not UTF-8.
    """
    check_regular(path, path)
    pending = []
    try:
        with open(path, "rb") as file:
            for number, line in enumerate(file, start=1):
                if number == 1:
                    line = line.removeprefix(b"\xef\xbb\xbf")
                place, line = SourceLine(path, number), line.rstrip(b"\r\n")
                pending.append((place, _decoded(line, place)))
                if line:
                    yield from pending
                    pending.clear()
    except OSError as e:
        raise UserError(f"{path} cannot be read: {e.strerror}") from e


def _decoded(line: bytes, place: SourceLine) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as e:
        raise place.error(f"byte {e.start + 1} of the line is not UTF-8") from e


def read_tsv(path: str) -> Iterator[tuple[SourceLine, list[str]]]:
    """Yields the columns of every line; a quotation mark is a character like any other.

    Raises:
      UserError: as in `read_lines`.
    """
    for place, line in read_lines(path):
        yield place, line.split("\t")


def read_tsv_records(path: str) -> Iterator[tuple[SourceLine, dict[str, str]]]:
    """Yields every line below the header as columns by name.

    Raises:
      UserError: as in `read_lines`, or a line has not as many columns as the header.
    """
    rows = read_tsv(path)
    _, names = next(rows, (None, []))
    for place, columns in rows:
        if len(columns) != len(names):
            raise place.error(f"{len(columns)} columns, the header has {len(names)}")
        yield place, dict(zip(names, columns, strict=True))


def read_json_lines(path: str) -> Iterator[tuple[SourceLine, Mapping[str, Any]]]:
    """Yields the JSON object of every line.

    Raises:
      UserError: as in `read_lines`, or a line is no JSON object.
    """
    for place, line in read_lines(path):
        record = parse_json(line, f"{place.path}, line {place.line}")
        if not isinstance(record, dict):
            raise place.error("no JSON object")
        yield place, record
