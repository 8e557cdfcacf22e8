"""Rows of tables with a label and one or two texts; needs no TensorFlow."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from albert.core.errors import UserError
from albert.core.files import parse_json
from albert.core.log import LOG
from albert.data.bad_rows import ERROR, BadRows
from albert.data.kinds import ENTITIES, LABELS, QUESTIONS, look_of
from albert.data.tables import SourceLine, Table, columns, open_table

# JSON can contain a lone surrogate, which UTF-8 cannot encode.
_NOT_IN_A_TABLE = re.compile("[\t\r\n\ud800-\udfff]")
_TEXT_B, LABEL = "text_b", "label"
# Names of columns that are plain. The first texts of pairs come with those of the second ones.
_PAIRS = {"text_a": _TEXT_B, "sentence1": "sentence2", "premise": "hypothesis", "text1": "text2"}
_PAIRS["question1"] = "question2"
_TEXTS = {*_PAIRS, "text", "sentence", "message", "review", "comment", "content", "body", "tweet"}
_TEXTS |= {"post", "document", "utterance", "texts", "reviewtext", "review_text"}
_LABELS = {LABEL, "labels", "category", "class", "target", "sentiment", "topic", "intent", "rating"}
_LABELS |= {"stars", "score", "categories", "tags"}
# Commands for files of other kinds.
_COMMANDS = {QUESTIONS: "squad", ENTITIES: "entities"}
# Number of rows that show what a column has.
_SAMPLE = 1000


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


def find_columns(
    path: str, options: TableOptions, given: Collection[str], is_labeled: bool = True
) -> TableOptions:
    """Returns the options with the columns of a table, and logs which ones these are.

    A column that is not `given` by the user is the default, the only one with a plain name, or the
    only one that can be it. Raises a `UserError` if no column or several are possible.
    """
    table = open_table(path)
    rows = [row for _, row in itertools.islice(table.rows(), _SAMPLE)]
    # Rows of JSON may have keys that the first one lacks.
    names = [*dict.fromkeys([*table.columns, *(key for row in rows for key in row)])]
    taken = {getattr(options, name) for name in options._fields[:3] if name in given}

    def find(name: str, plain: Collection[str], fits: Callable[[Sequence[Any]], bool]) -> str:
        default, what = getattr(options, name), name.removesuffix("_column")
        if name in given or default in names:
            taken.add(default)
            return default
        free = [column for column in names if column and column not in taken]
        named = [column for column in free if column.casefold() in plain]
        fitting = [c for c in named or free if fits([row.get(c) for row in rows])]
        is_only = len(free) == 1 and name == "text_column"
        possible = free if is_only else named if len(named) == 1 else fitting
        if len(possible) == 1:
            taken.add(possible[0])
            return possible[0]
        look, number = look_of(path), "several columns" if possible or named else "no column"
        if look.name and look.kind != LABELS:
            command = f": use `albert {_COMMANDS[look.kind]}`" if look.kind else ""
            raise UserError(f"{path} looks like {look.name}, not a table of labels{command}")
        known = columns(possible or named or free)
        raise UserError(f"{path}: {number} may be the {what}; pass --{name}=NAME, one of {known}")

    label, may_be_labels = options.label_column, _repeat
    if options.is_regression:
        may_be_labels = _are_numbers
    if is_labeled:
        label = find("label_column", _LABELS, may_be_labels)
    text = find("text_column", _TEXTS, _are_texts)
    second = options.text_b_column
    if "text_b_column" not in given:
        partner = _PAIRS.get(text.casefold())
        second = next((name for name in names if name.casefold() == partner), second)
    if text == second or (is_labeled and label in (text, second)):
        raise UserError(
            f"{path}: one column cannot be two of text ({text}), second text ({second}) and label "
            f"({label}); pass --text_column, --text_b_column and --label_column"
        )
    if rows and "text_column" not in given and not any(_has_letters(row.get(text)) for row in rows):
        raise UserError(f"{path}: the column {text} has no text with a letter; pass --text_column")
    also = f", second texts in {second}" if second in names else ""
    also += f", labels in {label}" if is_labeled else ""
    LOG.info("%s: texts are in the column %s%s", path, text, also)
    return options._replace(text_column=text, text_b_column=second, label_column=label)


def _has_letters(value: object) -> bool:
    return isinstance(value, str) and any(map(str.isalpha, value))


def _are_texts(values: Sequence[Any]) -> bool:
    """Returns whether most values are different texts of several words."""
    long = {value for value in values if _has_letters(value) and len(value.split()) > 1}
    return 2 * len(long) > len(values)


def _repeat(values: Sequence[Any]) -> bool:
    """Returns whether values repeat, as those of labels do."""
    return 1 < len(set(map(str, values))) <= len(values) / 2


def _are_numbers(values: Sequence[Any]) -> bool:
    with contextlib.suppress(TypeError, ValueError):
        return bool([float(value) for value in values])
    return False


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
            texts = texts_of(row, options)
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


def texts_of(row: Mapping[str, Any], options: TableOptions) -> tuple[str, str]:
    """Returns both texts of a row; raises a `ValueError` with the reason if one is not valid."""
    text_b = ""
    if row.get(options.text_b_column):
        text_b = text_of(row, options.text_b_column)
    elif options.text_b_column not in (_TEXT_B, *row):
        raise ValueError(f"{options.text_b_column} is missing")
    return text_of(row, options.text_column), text_b


def text_of(row: Mapping[str, Any], key: str) -> str:
    """Returns a text of a row; raises a `ValueError` with the reason if it is not valid."""
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
