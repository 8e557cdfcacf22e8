"""Reads rows of tab-separated files and JSON lines, each with its line number for messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from albert.core.errors import UserError, reporting
from albert.core.files import check_regular, parse_json


class SourceLine(NamedTuple):
    """The path and number of a line; numbers start at 1."""

    path: str
    line: int

    def error(self, reason: str) -> UserError:
        """Returns an error with this line's path and number."""
        return UserError(f"{self.path}, line {self.line}: {reason}")


def read_whole_lines(path: str) -> Iterator[tuple[SourceLine, str]]:
    """Yields the lines of a UTF-8 file with their line ends; removes a byte order mark.

    Raises:
      UserError: the file cannot be read or is not UTF-8.
    """
    check_regular(path, path)
    with reporting(f"{path} cannot be read"), open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            if number == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")
            location = SourceLine(path, number)
            yield location, _decoded(line, location)


def _decoded(line: bytes, location: SourceLine) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as e:
        raise location.error(f"byte {e.start + 1} of the line is not UTF-8") from e


def read_lines(path: str) -> Iterator[tuple[SourceLine, str]]:
    """Yields the lines of a UTF-8 file without line ends; skips empty lines at the end of the file.

    A byte order mark at the beginning and a carriage return at the end of a line are removed.
    Raises as `read_whole_lines` does.
    """
    pending = []
    for location, line in read_whole_lines(path):
        line = line.rstrip("\r\n")
        pending.append((location, line))
        if line:
            yield from pending
            pending.clear()


def read_tsv(path: str) -> Iterator[tuple[SourceLine, list[str]]]:
    """Yields the columns of every line; quotation marks have no special meaning."""
    for location, line in read_lines(path):
        yield location, line.split("\t")


def read_json_lines(path: str) -> Iterator[tuple[SourceLine, Mapping[str, Any]]]:
    """Yields the JSON object of every line; raises a `UserError` if a line is not one."""
    for location, line in read_lines(path):
        record = parse_json(line, f"{location.path}, line {location.line}")
        if not isinstance(record, dict):
            raise location.error("not a JSON object")
        yield location, record
