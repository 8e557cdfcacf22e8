"""Rows of tables with a label and one or two texts; needs no TensorFlow."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from albert.core.errors import UserError
from albert.core.files import parse_json
from albert.data.bad_rows import ERROR, BadRows
from albert.data.tables import SourceLine, Table, open_table

# JSON can contain a lone surrogate, which UTF-8 cannot encode.
_NOT_IN_A_TABLE = re.compile("[\t\r\n\ud800-\udfff]")
_TEXT_B, LABEL = "text_b", "label"


class TableOptions(NamedTuple):
    """The columns of a table, and what to predict: a label, a number or any number of labels.

    `separator` is the text between two of several labels in a cell; `on_bad_row`, see `BadRows`.
    """

    text_column: str = "text_a"
    text_b_column: str = _TEXT_B
    label_column: str = LABEL
    is_regression: bool = False
    is_multi_label: bool = False
    separator: str = ","
    on_bad_row: str = ERROR

    @classmethod
    def of(cls, settings: Any) -> TableOptions:
        """Returns the options in the settings of a training or a check."""
        names = "tsv_regression", "multi_label", "label_separator", "on_bad_row"
        return cls(*(getattr(settings, name) for name in (*cls._fields[:3], *names)))


class LabeledText(NamedTuple):
    """A row; `text_b` may be empty, and `labels` has one label unless a row may have several."""

    location: SourceLine
    text_a: str
    text_b: str
    labels: list[str]


def read_labeled(
    path: str,
    options: TableOptions,
    bad: BadRows,
    is_labeled: bool = True,
    known: Collection[str] | None = None,
) -> Iterator[LabeledText]:
    """Yields the rows of a table; the caller finishes `bad`, which receives the others.

    Raises a `UserError` if the table is not valid, or lacks a column.

    Args:
      is_labeled: whether rows need labels.
      known: the labels that are allowed; None for any.
    """
    table, listed = open_table(path), ", ".join(sorted(known or ()))
    for location, row in table.rows(_required(table, options, is_labeled)):
        try:
            texts = _texts(row, options)
            labels = labels_of(row, options) if is_labeled else []
            for label in labels:
                if known is not None and label not in known:
                    raise ValueError(f"the label is {label!r}, not one of {listed}")
        except ValueError as e:
            bad.add(location, str(e))
        else:
            yield LabeledText(location, *texts, labels)


def _required(table: Table, options: TableOptions, is_labeled: bool) -> list[str]:
    """Returns the columns that a table with cells must have; rows of JSON have their own keys."""
    if not table.has_cells:
        return []
    second = [options.text_b_column] if options.text_b_column != _TEXT_B else []
    return [options.text_column, *([options.label_column] if is_labeled else []), *second]


def _texts(row: Mapping[str, Any], options: TableOptions) -> tuple[str, str]:
    """Returns both texts of a row; raises a `ValueError` with the reason if one is not valid."""
    text_b = ""
    if row.get(options.text_b_column):
        text_b = _text(row, options.text_b_column)
    elif options.text_b_column not in (_TEXT_B, *row):
        raise ValueError(f"{options.text_b_column} is missing")
    return _text(row, options.text_column), text_b


def _text(row: Mapping[str, Any], key: str) -> str:
    if not isinstance(row.get(key), str):
        raise ValueError(f"{key} is missing or not a text")
    if not row[key].strip():
        raise ValueError(f"{key} is empty")
    return row[key]


def labels_of(row: Mapping[str, Any], options: TableOptions) -> list[str]:
    """Returns the label of a row, or its labels; raises a `ValueError` with the reason."""
    value = row.get(options.label_column)
    if not options.is_multi_label:
        label = _label(value)
        if options.is_regression:
            parse_number(label)
        return [label]
    if isinstance(value, str):
        value = _list_in(value, options.separator)
    if not isinstance(value, list):
        raise ValueError("label is missing, or not a text or a list")
    return [_label(item) for item in value]


def _list_in(cell: str, separator: str) -> list:
    """Returns the items in a cell, which are a JSON list or separated."""
    if cell.lstrip().startswith("["):
        try:
            return parse_json(cell, "a cell")
        except UserError:
            pass
    return [item for item in cell.split(separator) if item.strip()]


def _label(label: object) -> str:
    """Returns a label as it is in the file; a JSON number or Boolean keeps its JSON form."""
    if isinstance(label, bool | int | float):
        label = json.dumps(label)
    if not isinstance(label, str) or not label.strip():
        raise ValueError("label is missing")
    label = label.strip()
    if _NOT_IN_A_TABLE.search(label):
        raise ValueError(f"the label {label!r} has a tab, a line end or half a surrogate pair")
    return label


def parse_number(text: str) -> float:
    """Parses a finite number; raises a `ValueError` with the reason if the text is another one."""
    try:
        value = float(text)
    except ValueError as e:
        raise ValueError(f"the label is {text!r}, not a number") from e
    if not math.isfinite(value):
        raise ValueError(f"the label is {text!r}, but it must be finite")
    return value
