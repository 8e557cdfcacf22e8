"""Lines and rows of files, and tables with named columns: CSV, TSV, JSON, Parquet or Arrow.

All are read one at a time, so that a file may be larger than the memory. Each has its line number
for messages. The files may be compressed.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from albert.core.errors import UserError, reporting
from albert.core.files import check_regular, parse_json, read_json
from albert.core.json_reader import JsonReader
from albert.tables import parquet

# Marks of formats: their delimiters; JSON Lines has none, and JSON is an array of rows. In text,
# each line is the only cell of a row.
CSV, TSV, JSON_LINES, JSON, TEXT = ",", "\t", "", "[", "\n"
_OF_CELLS = {
    CSV: "CSV",
    ";": "CSV with semicolons",
    TSV: "TSV",
    "|": "CSV with |",
    "@": "CSV with @",
}
_FORMATS = {**_OF_CELLS, JSON_LINES: "JSON Lines", JSON: "JSON", TEXT: "text", **parquet.FORMATS}
# The first line of some files of Excel, which is no row.
_SEPARATOR = re.compile('"?sep=([,;|@\t])"?\r?\n?', re.IGNORECASE)
# In a JSON file of questions, the items with these keys are no rows.
NESTED = ("paragraphs", "qas")
# In the JSON of the Hub's rows, the member that has the values of a row.
_ROW = "row"
_OF_ROWS = {"row_idx", _ROW, "truncated_cells"}
# Number of bytes from which the format is recognized.
_HEAD = 1 << 16
# A longer cell is probably the rest of a file after a quotation mark that is not closed.
_LONGEST_CELL = 1 << 23
# Number of characters of a list of names in a message.
_LONGEST_LIST = 200
# The errors of the `csv` module for the author of a table.
_MEANINGS = {
    **dict.fromkeys(("unexpected end", "field limit"), "a quotation mark is not closed"),
    "expected after": 'text after a closing quotation mark; in a quoted cell, write "" for "',
    "new-line": "a carriage return in a cell without quotation marks; end lines with LF or CRLF",
}
_UTF16 = "UTF-16; save it as UTF-8: in Excel as CSV UTF-8, or with iconv -f UTF-16 -t UTF-8"
_LINES = 'save its rows as JSON Lines, with to_json(NAME, orient="records", lines=True) in pandas'
# What files of other formats are, by their first bytes.
_FOREIGN = {
    b"PK\x03\x04": "a workbook of Excel or another archive; save it as CSV, or unpack it",
    b"\xd0\xcf\x11\xe0": "an old workbook of Excel; save it as CSV",
    b"SQLite format 3": "a database of SQLite; export a table as CSV",
    **dict.fromkeys((b"BZh", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ"), "a compressed file; unpack it"),
    **{bytes([128, number]): f"a pickle of Python; {_LINES}" for number in range(2, 6)},
    **dict.fromkeys((b"FEA1", b"\x89HDF"), f"an old Feather file or HDF5; {_LINES}"),
    **dict.fromkeys((b"\xff\xfe", b"\xfe\xff"), _UTF16),
}


class SourceLine(NamedTuple):
    """The path and number of a line, or of another `unit` of a file; numbers start at 1."""

    path: str
    line: int
    unit: str = "line"

    @property
    def name(self) -> str:
        """Returns the location in its file, such as "line 3"."""
        return f"{self.unit} {self.line}"

    def error(self, reason: str) -> UserError:
        """Returns an error with this line's path and number."""
        return UserError(f"{self.path}, {self.name}: {reason}")


@contextlib.contextmanager
def opened(path: str) -> Iterator[io.BufferedReader]:
    """Opens a file, and unpacks it if it is compressed with gzip; raises a `UserError`."""
    with reporting(f"{path} cannot be read"), open(path, "rb") as file:
        head = file.peek(16)
        for name in (name for first, name in _FOREIGN.items() if head.startswith(first)):
            raise UserError(f"{path} is {name}")
        try:
            is_packed = head.startswith(b"\x1f\x8b")
            yield cast(io.BufferedReader, gzip.GzipFile(fileobj=file)) if is_packed else file
        except (EOFError, zlib.error) as e:
            raise UserError(f"{path} cannot be unpacked: {e}") from e


def read_whole_lines(path: str) -> Iterator[tuple[SourceLine, str]]:
    """Yields the lines of a UTF-8 file with their line ends; removes a byte order mark.

    Raises a `UserError` if the file cannot be read or is not UTF-8.
    """
    check_regular(path, path)
    with opened(path) as file:
        for number, line in enumerate(file, start=1):
            if number == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")
            location = SourceLine(path, number)
            try:
                text = line.decode()
            except UnicodeDecodeError as e:
                raise location.error(
                    f"byte {e.start + 1} of the line is not UTF-8; save the file as UTF-8, such as "
                    "with iconv -f WINDOWS-1252 -t UTF-8"
                ) from e
            yield location, text


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
    """Yields the JSON object of every line; raises a `UserError` if a line is not one.

    Empty lines are skipped.
    """
    for location, _, values, _ in _json_lines(path):
        if values is not None:
            yield location, values


def _json_lines(path: str) -> Iterator[Record]:
    for location, line in read_whole_lines(path):
        values = None
        if line.strip():
            values = parse_json(line.rstrip("\r\n"), f"{location.path}, line {location.line}")
            if not isinstance(values, dict):
                raise location.error("not a JSON object")
        yield Record(location, line, values)


Row = tuple[SourceLine, Mapping[str, Any]]


class Record(NamedTuple):
    """A row with the text that contains it and its line end, if no line has two rows.

    `values` is None for the header and for empty lines, and {} if all cells are empty.
    """

    location: SourceLine
    text: str
    values: Mapping[str, Any] | None
    is_header: bool = False


class Table(NamedTuple):
    """A table in a file.

    `delimiter` is "" for JSON Lines, "[" for JSON. `columns` are the keys of their first row.
    """

    path: str
    delimiter: str
    columns: Sequence[str]

    @property
    def has_cells(self) -> bool:
        """Returns whether it is CSV or TSV, where every row has the same columns."""
        return self.delimiter in _OF_CELLS

    @property
    def format(self) -> str:
        """Returns the name of the format."""
        return _FORMATS[self.delimiter]

    def rows(self, required: Sequence[str] = ()) -> Iterator[Row]:
        """Yields the rows, with values by column and with the line in which each row begins.

        Cells of CSV and TSV are texts, which may be empty. Values of JSON have any type. The
        columns `required` must exist; every row of JSON needs these keys. Rows whose cells are all
        empty are skipped. Raises a `UserError` if a column is missing, or a row is not valid.
        """
        for location, _, values, is_header in self.records():
            if is_header:
                _check(location, required, self.columns)
            elif values or (values is not None and not self.has_cells):
                if not self.has_cells:
                    _check(location, required, values)
                yield location, values

    def records(self) -> Iterator[Record]:
        """Yields the rows with their texts, and all other lines; raises as `rows` does."""
        if not self.has_cells:
            yield from self._other_records()
            return
        columns, is_header = self.columns, True
        for location, text, cells in _cells(self.path, self.delimiter):
            if not any(cells):
                yield Record(location, text, {} if cells and not is_header else None)
            elif is_header:
                yield Record(location, text, None, is_header)
                is_header = False
            elif len(cells) != len(columns):
                raise location.error(_wrong_width(len(cells), len(columns), self.delimiter))
            else:
                yield Record(location, text, dict(zip(columns, cells, strict=True)))

    def _other_records(self) -> Iterator[Record]:
        if self.delimiter == JSON_LINES:
            yield from _json_lines(self.path)
        elif self.delimiter == TEXT:
            for location, line in read_lines(self.path):
                yield Record(location, "", {self.columns[0]: line} if line.strip() else None)
        else:
            is_json, mark = self.delimiter == JSON, self.delimiter
            rows = _read_json_rows(self.path) if is_json else parquet.read_rows(self.path, mark)
            unit = "item" if is_json else "row"
            for number, values in enumerate(rows, start=1):
                yield Record(SourceLine(self.path, number, unit), "", values)


def find_table(path: str) -> Table:
    """Returns the table in a file; it has no columns if it has no rows.

    The rows of a JSON document are the objects of an array, or of its member "data". If the first
    one has a key of `NESTED`, it is the last one in `columns`.
    Raises a `UserError` if the file cannot be read, or its header or first row is not valid.
    """
    check_regular(path, path)
    with opened(path) as file:
        head = file.read(_HEAD).removeprefix(b"\xef\xbb\xbf")
        is_packed = isinstance(file, gzip.GzipFile)
    for mark in parquet.FORMATS:
        if head.startswith(mark.encode("latin-1")):
            return Table(path, mark, parquet.read_columns(path, mark))
    if head.lstrip()[:1] in (b"{", b"["):
        keys = _keys_in_document(path, head)
        if keys is not None:
            if is_packed:
                raise UserError(f"{path} is a compressed JSON document; unpack it")
            return Table(path, JSON, keys)
        _, first = next(read_json_lines(path))
        return Table(path, JSON_LINES, list(first))
    first_line = next(iter(head.lstrip(b"\r\n").splitlines()), b"")
    # Python 3.10 cannot parse NUL.
    delimiter = _delimiter(first_line.replace(b"\0", b"").decode(errors="replace"), path)
    rows = ((location, cells) for location, _, cells in _cells(path, delimiter) if any(cells))
    location, header = next(rows, (SourceLine(path, 1), []))
    columns = [" ".join(name.split()) for name in header]
    for number, name in enumerate(columns):
        # Spreadsheets may have empty columns at the right.
        if name and name in columns[:number]:
            raise location.error(f"the column {name} occurs twice")
    return Table(path, delimiter, columns)


def _keys_in_document(path: str, head: bytes) -> list[str] | None:
    """Returns the keys of a JSON document's first row, if any; None for an object per line."""
    line, end, rest = head.lstrip().partition(b"\n")
    line = line.rstrip()
    # A file may begin with a byte order mark, which is no longer in `head`.
    is_part = not end and len(head) >= _HEAD - 3
    is_row = line[:1] == b"{" and line != b"{}" and (is_part or line[-1:] == b"}")
    # No document has another object after it, so a row may have a list "data", too.
    if is_row and rest.lstrip().startswith(b"{"):
        return None
    with open(path, "rb") as file, contextlib.suppress(OSError, ValueError):
        reader = JsonReader(file.fileno())
        for _ in items_of(reader):
            return list(_keys_of_row(reader)) if reader.begins("{") else []
        return []
    return None if is_row else []


def _keys_of_row(reader: JsonReader) -> Iterator[str]:
    for key in reader.members():
        if key == _ROW and reader.begins("{"):
            yield from _keys_of_row(reader)
            continue
        yield key
        if key in NESTED:
            return
        reader.value()


def items_of(reader: JsonReader) -> Iterator[None]:
    """Yields None for each item of an array, or of an object's member "data", to read it.

    Raises a `ValueError` if the document is neither.
    """
    if reader.begins("["):
        yield from reader.items()
        return
    has_data = False
    for key in reader.members() if reader.begins("{") else ():
        if key in ("data", f"{_ROW}s") and reader.begins("["):
            has_data = True
            yield from reader.items()
        else:
            reader.value()
    if not has_data:
        raise ValueError('it has no list "data" at the top level')


def _read_json_rows(path: str) -> Iterator[dict[str, Any]]:
    with reporting(f"{path} cannot be read"), open(path, "rb") as file:
        reader = JsonReader(file.fileno())
        try:
            for number, _ in enumerate(items_of(reader), start=1):
                record = reader.value()
                if not isinstance(record, dict):
                    raise SourceLine(path, number, "item").error("not a JSON object")
                # The Hub has each row in another object.
                inner = record.get(_ROW) if record.keys() <= _OF_ROWS else None
                yield inner if isinstance(inner, dict) else record
            reader.end()
        except UserError:
            raise
        except ValueError as e:
            # To locate it.
            read_json(path, "table")
            raise UserError(f"{path} cannot be read: {e}") from e


def open_table(path: str) -> Table:
    """Returns the table in a file; raises as `find_table` does, and for JSON without rows."""
    table = find_table(path)
    if table.delimiter == JSON and not {*table.columns} - {*NESTED}:
        raise UserError(f"{path} is neither CSV, TSV, JSON Lines, Parquet nor a JSON array of rows")
    return table


def _delimiter(header: str, path: str) -> str:
    """Returns the delimiter that the first line names, or with which it has the most columns."""
    if named := _SEPARATOR.fullmatch(header):
        return named[1]

    def count(delimiter: str) -> int:
        return len(next(csv.reader([header], delimiter=delimiter), ()))

    # The first of several wins: a header may have one column only.
    is_tsv = ".tsv" in path.lower()[-7:]
    return max(sorted(_OF_CELLS, key=TSV.__eq__, reverse=is_tsv), key=count)


def _cells(path: str, delimiter: str) -> Iterator[tuple[SourceLine, str, list[str]]]:
    """Yields the cells of every row, with its first line and its text; empty lines have none.

    In TSV, quotation marks inside a cell are text.
    """
    if delimiter != TSV:
        yield from _csv_cells(path, delimiter)
        return
    for location, text in read_whole_lines(path):
        line = text.rstrip("\r\n")
        is_row = line and not (location.line == 1 and _SEPARATOR.fullmatch(line))
        cells = line.split("\t") if is_row else []
        yield location, text, [_unquoted(cell) for cell in cells] if '"' in line else cells


def _unquoted(cell: str) -> str:
    inner = cell[1:-1]
    is_quoted = len(cell) > 1 and cell[0] == cell[-1] == '"' and '"' not in inner.replace('""', "")
    return inner.replace('""', '"') if is_quoted else cell


def quoted(cell: str) -> str:
    """Returns a text as a cell of TSV, with quotation marks if it would lose its own."""
    return cell if _unquoted(cell) == cell else '"' + cell.replace('"', '""') + '"'


def _csv_cells(path: str, delimiter: str) -> Iterator[tuple[SourceLine, str, list[str]]]:
    csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_CELL))
    lines = list[str]()
    reader = csv.reader(_csv_lines(path, lines), delimiter=delimiter, strict=True)
    while True:
        location = SourceLine(path, reader.line_num + 1)
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as e:
            known = (meaning for part, meaning in _MEANINGS.items() if part in str(e))
            raise location.error(next(known, str(e))) from e
        yield location, "".join(lines), row
        lines.clear()


def _csv_lines(path: str, lines: list[str]) -> Iterator[str]:
    """Yields the lines for the `csv` module, and appends them to those of the current row."""
    for location, line in read_whole_lines(path):
        if "\0" in line:
            raise location.error("a NUL character; the file is not UTF-8 text")
        lines.append(line)
        yield "\n" if location.line == 1 and _SEPARATOR.fullmatch(line) else line


def _check(location: SourceLine, required: Sequence[str], names: Sequence[str] | Mapping) -> None:
    for name in required:
        if name not in names:
            raise location.error(f"{name} is missing; found {columns(names)}")


def columns(names: Iterable[str]) -> str:
    """Returns the names of columns for a message of one line."""
    return " ".join(", ".join(names).split())[:_LONGEST_LIST] or "nothing"


def _wrong_width(number: int, expected: int, delimiter: str) -> str:
    problem = f"{number} columns, but the header has {expected}"
    if delimiter == "\t":
        # The usual cause.
        return f"{problem}; a cell of TSV has no tab or line end: save the table as CSV"
    return f"{problem}; put cells that contain {delimiter!r} into quotation marks"
