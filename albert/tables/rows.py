"""Rows from Python: lists, DataFrames of pandas or polars, and tables of Arrow, imported by none.

A run gets them as JSON Lines in its folder.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, cast

from albert.core.errors import UserError
from albert.core.files import open_atomically, read_bytes, remove_temporary_files
from albert.tables.tables import columns

# Methods that return a list: of polars, Arrow, pandas and NumPy. DataFrames of pandas have none.
_METHODS = ("to_dicts", "to_pylist", "to_list", "tolist")
_NOTE = "The rows of the last call of albert.train for this run. Each call replaces them.\n"


def rows_of(data: object, names: Sequence[Sequence[str]], what: str = "data") -> list[dict]:
    """Returns rows with the values of JSON by column; missing values are None.

    `names` are the columns of rows that are tuples or single values, for each length. Raises a
    `UserError` that names `what` and the row, from 1.
    """
    kind, elements, rows = type(data), data, list[dict]()
    if method := next((name for name in _METHODS if hasattr(kind, name)), ""):
        elements = getattr(data, method)()
    elif hasattr(kind, "to_dict"):
        with contextlib.suppress(TypeError):
            elements = cast(Any, data).to_dict("records")
    if not isinstance(elements, list | tuple):
        raise UserError(f"{what} must be a list, a DataFrame or a table, not a {kind.__name__}")
    for number, element in enumerate(elements, 1):
        try:
            value = _plain(element)
        except (TypeError, ValueError) as e:
            raise UserError(f"{what}, row {number}: {e}") from e
        if not isinstance(value, dict):
            values = value if isinstance(value, list) else [value]
            fitting = [one for one in names if len(one) == len(values)]
            if not fitting:
                needed = " or ".join(["a dict", *(f"({', '.join(one)})" for one in names)])
                raise UserError(f"{what}, row {number}: {needed} is needed, not {element!r:.40}")
            value = dict(zip(fitting[0], values, strict=True))
        rows.append(value)
    return rows


def _plain(value: Any) -> Any:
    """Returns a value as JSON has it; raises a `ValueError` if JSON has no such value."""
    if isinstance(value, Mapping):
        value = {str(name): cell for name, cell in value.items()}
    text = json.dumps(value, default=_library_value)
    return json.loads(text, parse_constant=lambda name: None if name == "NaN" else float(name))


def _library_value(value: Any) -> Any:
    if type(value).__name__ in ("NAType", "NaTType"):
        # Missing values of pandas.
        return None
    if isinstance(value, set | frozenset | Mapping):
        return dict(value) if isinstance(value, Mapping) else sorted(value, key=str)
    for method in ("tolist", "isoformat"):
        if hasattr(value, method):
            return getattr(value, method)()
    raise ValueError(f"{value!r:.40} is neither a text nor a number; remove it")


def texts_of(
    data: object, *names: str, optional: str = "", what: str = "data"
) -> list[tuple[Any, ...]]:
    """Returns the texts in the columns of rows; that in `optional` is "" if it is missing.

    Raises the errors of `rows_of`, and a `UserError` for a row that lacks a text.
    """
    pairs, texts = (*names, optional) if optional else names, []
    for number, row in enumerate(rows_of(data, (names, pairs), what), 1):
        own = {**row, optional: row.get(optional) or ""}
        for name in pairs:
            if not isinstance(own.get(name), str):
                is_value = f"{name} is {own.get(name)!r:.40}, not a text"
                raise UserError(f"{what}, row {number}: {is_value}; it has {columns(row)}")
        texts.append(tuple(own[name] for name in pairs))
    return texts


def write_splits(folder: str, splits: Mapping[str, Sequence[dict] | None]) -> None:
    """Writes the rows of splits as JSON Lines, unless the file has them; None removes the file.

    Raises a `UserError` if the folder has files of the user, or cannot be written.
    """
    contents = {"README.txt": _NOTE}
    for split, rows in splits.items():
        if rows == []:
            raise UserError(f"there are no rows for {split}")
        contents[f"{split}.jsonl"] = "".join(json.dumps(row) + "\n" for row in rows or ())
    existing, note = os.listdir(folder) if os.path.isdir(folder) else [], ""
    if "README.txt" in existing:
        note = read_bytes(os.path.join(folder, "README.txt")).decode(errors="replace")
    if contents.keys() & {*existing} and note != _NOTE:
        raise UserError(f"{folder} has your own files; pass another output_dir, or the folder")
    for name, text in contents.items():
        path = os.path.join(folder, name)
        remove_temporary_files(path)
        if not text:
            with contextlib.suppress(FileNotFoundError):
                os.remove(path)
        elif not os.path.exists(path) or read_bytes(path) != text.encode():
            with open_atomically(path) as file:
                file.write(text)
