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

import json
import math
import os
import re
from typing import Any

from albert.core.errors import UserError
from albert.core.files import open_atomically, parse_json

_TEMPLATE = os.path.join(os.path.dirname(__file__), "page.html")
_DATA = re.compile(r'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)


def write_page(path: str, view: dict[str, Any]) -> None:
    """Writes the page for a view.

    Raises:
      UserError: the page cannot be written.
    """
    with open(_TEMPLATE, encoding="utf-8") as file:
        head, tail = file.read().split("{{data}}")
    # Without "<", no text can end the element or begin another one.
    data = json.dumps(view, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    with open_atomically(path) as file:
        file.writelines((head, data, tail))


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


def finite(value: float | None) -> float | None:
    """Returns the number if JSON can represent it, otherwise None."""
    return None if value is None or not math.isfinite(value) else value


def rounded(value: float | None) -> float | None:
    """Returns a number rounded for display, or None if it is not finite."""
    known = finite(value)
    return None if known is None else round(float(known), 4)
