"""A self-contained HTML page of predictions, which contains them as JSON.

The JSON object is called a view. It has `kind` ("answers" to questions, "spans" with labels,
"labels" of texts, "sets" of labels, "options" with one right option, or "numbers"), `title`,
`scores` by name, `labels`, `passages`, and `samples`. None replaces a number that is not finite,
and means unknown. A sample has `id`, `passage` (its number, or None), `right` (None if unknown or a
matter of degree), `score` (from 0 to 1, or None), `confidence` (from 0 to 1, or None), `answer`,
and:

  answers, spans    `spans` and `truths`, the predicted and the true spans in the passage: lists of
                    place (-1 if it is not known) and text and, with labels, label and probability;
                    `nbest` (pairs of text and probability)
  answers           also `question`, `unanswerable`, `abstained`, `odds`
  labels, options   `texts`, `truth` and `answer` (numbers of labels), `probabilities`
  sets              as labels, but `truth` and `answer` are lists of numbers
  numbers           `texts`, `truth`
"""

from __future__ import annotations

import itertools
import json
import math
import os
import re
from collections.abc import Container, Iterator
from typing import Any

from albert.core.errors import UserError
from albert.core.files import open_atomically, parse_json
from albert.core.json_reader import JsonReader

_TEMPLATE = os.path.join(os.path.dirname(__file__), "page.html")
_ELEMENT = b'<script type="application/json" id="data">'
_DATA = re.compile(rf"{_ELEMENT.decode()}(.*?)</script>", re.DOTALL)
# Bytes in which the element begins.
_MOST_BEFORE = 1 << 15
# Items of an iterator that are written at a time.
_ITEMS = 64


def write_page(path: str, view: dict[str, Any]) -> None:
    """Writes the page for a view, in which iterators may replace lists.

    Raises:
      UserError: the page cannot be written.
    """
    with open(_TEMPLATE, encoding="utf-8") as file:
        head, tail = file.read().split("{{data}}")
    with open_atomically(path) as file:
        file.write(head)
        # Without "<", no text can end the element or begin another one.
        file.writelines(part.replace("<", "\\u003c") for part in _parts(view))
        file.write(tail)


def _parts(view: dict[str, Any]) -> Iterator[str]:
    """Yields the parts of a view's JSON; all views together may not fit into memory."""
    encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
    before = "{"
    for key, value in view.items():
        yield f"{before}{encode(key)}:"
        if isinstance(value, Iterator):
            yield "["
            between = ""
            while some := list(itertools.islice(value, _ITEMS)):
                yield between + encode(some)[1:-1]
                between = ","
            yield "]"
        else:
            yield encode(value)
        before = ","
    yield "}"


def read_page(path: str) -> dict[str, Any]:
    """Returns the view in a page.

    Raises:
      UserError: the file cannot be read, or is not a page of predictions.
    """
    try:
        with open(path, encoding="utf-8") as file:
            found = _DATA.search(file.read())
    except OSError as e:
        raise UserError(f"{path} cannot be read: {e.strerror}") from e
    except UnicodeDecodeError:
        found = None
    view = parse_json(found[1], path) if found else None
    if not isinstance(view, dict) or not {"kind", "samples"} <= view.keys():
        raise UserError(f"{path} is not a page of predictions")
    return view


def read_first_samples(path: str, count: int) -> tuple[dict[str, Any], int]:
    """Returns the view in a page with only its first samples, and the number of all samples.

    The view has the passages of these samples, by their numbers.

    Raises:
      UserError: as in `read_page`.
    """
    try:
        with open(path, "rb") as file:
            begin = file.read(_MOST_BEFORE).index(_ELEMENT) + len(_ELEMENT)
            view, number = _first_samples(JsonReader(file.fileno(), begin), count)
            chosen = {sample["passage"] for sample in view["samples"]}
            view["passages"] = _passages(JsonReader(file.fileno(), begin), chosen)
            return view, number
    except (OSError, ValueError, LookupError, TypeError):
        # Either raises the error, or the view has an unusual form.
        view = read_page(path)
        return view, len(view["samples"])


def _first_samples(reader: JsonReader, count: int) -> tuple[dict[str, Any], int]:
    """Returns a view without passages, with only the first samples; and the number of all."""
    view, samples, number = dict[str, Any](), list[dict[str, Any]](), 0
    for key in reader.members():
        if key == "samples":
            for number, sample in enumerate(reader.values(), start=1):
                samples += [sample] * (number <= count)
        elif key == "passages":
            for _ in reader.values():
                pass
        else:
            view[key] = reader.value()
    return {"kind": view.pop("kind"), **view, "samples": samples}, number


def _passages(reader: JsonReader, chosen: Container[int | None]) -> dict[int, str]:
    """Returns the chosen passages of a view by their numbers; they precede the samples."""
    for key in reader.members():
        if key == "passages":
            return {n: text for n, text in enumerate(reader.values()) if n in chosen}
        reader.value()
    raise ValueError("a view has no passages")


def finite(value: float | None) -> float | None:
    """Returns the number if JSON can represent it, otherwise None."""
    return None if value is None or not math.isfinite(value) else value


def rounded(value: float | None) -> float | None:
    """Returns a number rounded for display, or None if it is not finite."""
    known = finite(value)
    return None if known is None else round(float(known), 4)
