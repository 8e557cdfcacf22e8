"""Tables with more columns: the rows of another table, with a value for each new column."""

from __future__ import annotations

import codecs
import csv
import io
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from albert.core.errors import FlagError, UserError
from albert.core.files import strict_json
from albert.tables import tables
from albert.tables.tables import CSV, JSON, JSON_LINES, TSV, Record, Table

ENDINGS = {".csv": CSV, ".tsv": TSV, ".jsonl": JSON_LINES}
TABLES = (*ENDINGS, ".json", ".parquet", ".arrow", ".feather")


def ending_of(path: str) -> str:
    """Returns the ending of a name in lower case, such as ".csv", without that of gzip."""
    return os.path.splitext(path.removesuffix(".gz"))[1].lower()


def usual_ending(table: Table) -> str:
    """Returns the ending of a file with more columns than a table, in the same format if it can."""
    own, delimiter = ending_of(table.path), table.delimiter
    kinds = {TSV: ".tsv", JSON_LINES: ".jsonl", JSON: ".jsonl"}
    return own if own in ENDINGS else kinds.get(delimiter, ".csv")


class ExtendedTable:
    """The texts of a table's rows with more columns, in the format that an ending names.

    If that is the table's own format, the rows keep their texts, and the cells are appended.
    """

    def __init__(self, table: Table, ending: str, added: Sequence[str]):
        """Raises a `FlagError` for an unknown ending, and a `UserError` if a new column exists."""
        if ending not in ENDINGS:
            raise FlagError(f"the ending {ending!r} is not one of {', '.join(ENDINGS)}")
        self._table, self._added = table, added
        self.check_names(table.columns, table.path)
        # A line of other formats may have two rows.
        is_by_line = table.has_cells or table.delimiter == JSON_LINES
        self.keeps_texts = is_by_line and ending == usual_ending(table)
        self._delimiter = table.delimiter if self.keeps_texts else ENDINGS[ending]
        with tables.opened(table.path) as file:
            has_mark = self.keeps_texts and file.read(3) == codecs.BOM_UTF8
        self.mark = codecs.BOM_UTF8 * has_mark

    def check_names(self, names: Iterable[str], where: str) -> None:
        """Raises a `UserError` if a new column exists."""
        if known := {*self._added} & {*names}:
            raise UserError(f"{where}: the column {min(known)} exists already; rename or remove it")

    def head(self) -> bytes:
        """Returns the header of a table in another format; it is a row if the format is kept."""
        has_header = not self.keeps_texts and self._delimiter != JSON_LINES
        names = [*self._table.columns, *self._added]
        return self.mark + (self._line(names).encode() if has_header else b"")

    def row(self, record: Record, values: Mapping[str, Any]) -> bytes:
        """Returns a row with values of the new columns, empty ones if it has none; or the header.

        Raises a `UserError` if the format cannot hold a value.
        """
        try:
            text = self._kept(record, values) if self.keeps_texts else self._other(record, values)
        except ValueError as e:
            raise record.location.error(str(e)) from e
        return text.encode(errors="replace")

    def _kept(self, record: Record, values: Mapping[str, Any]) -> str:
        line = record.text.rstrip() if self._delimiter == JSON_LINES else record.text.rstrip("\r\n")
        end = record.text[len(line) :]
        if not line or (record.values is None and not record.is_header):
            return record.text
        if self._delimiter == JSON_LINES:
            more = _json({name: values.get(name) for name in self._added})
            return f"{line[:-1]}{', ' if record.values else ''}{more[1:]}{end}"
        cells = self._added if record.is_header else map(values.get, self._added)
        return f"{line}{self._delimiter}{self._line(cells)[:-1]}{end}"

    def _other(self, record: Record, values: Mapping[str, Any]) -> str:
        if (row := record.values) is None:
            return ""
        if self._delimiter == JSON_LINES:
            row = row or (dict.fromkeys(self._table.columns, "") if self._table.has_cells else {})
            return _json({**row, **{name: values.get(name) for name in self._added}}) + "\n"
        if new := row.keys() - {*self._table.columns}:
            raise ValueError(f"the first row has no {min(new)}; write a .jsonl file instead")
        return self._line([*map(row.get, self._table.columns), *map(values.get, self._added)])

    def _line(self, values: Iterable[Any]) -> str:
        """Returns the cells of values as a line."""
        texts = list(map(_text_of, values))
        if self._delimiter == TSV:
            if any(sign in text for text in texts for sign in "\t\r\n"):
                raise ValueError("TSV cannot hold a tab or a line end; write a .csv file instead")
            return "\t".join(map(tables.quoted, texts)) + "\n"
        out = io.StringIO()
        # With another line end, Python would not quote all cells with line ends.
        csv.writer(out, delimiter=self._delimiter, lineterminator="\r\n").writerow(texts)
        return out.getvalue()[:-2] + "\n"


def _text_of(value: Any) -> str:
    """Returns a value as a cell: a text as it is, and others as JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else repr(value) if isinstance(value, float) else _json(value)


def _json(value: Any) -> str:
    try:
        return strict_json(value)
    except TypeError:
        # Parquet has other types, such as dates.
        return json.dumps(value, default=str, ensure_ascii=False)
