"""Reading JSON: whatever is wrong with it is one line that names the file."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from albert.core.errors import UserError
from albert.core.files import check_readable


def read_json(path: str, what: str, make_object: Callable[[list], Any] | None = None) -> Any:
    """Returns what a JSON file holds; a byte order mark at its beginning is skipped.

    Args:
      path: of the file.
      what: it is, for messages.
      make_object: makes something else than a dictionary of an object's pairs.

    Raises:
      UserError: the file cannot be read, or is no JSON in UTF-8.
    """
    check_readable(path, what)
    try:
        with open(path, encoding="utf-8-sig") as file:
            text = file.read()
    except OSError as e:
        raise UserError(f"{what} {path} cannot be read: {e.strerror}") from e
    except UnicodeDecodeError as e:
        raise UserError(f"{what} {path} is not UTF-8: byte {e.start}") from e
    return parse_json(text, f"{what} {path}", make_object)


def parse_json(text: str, what: str, make_object: Callable[[list], Any] | None = None) -> Any:
    """Returns what a text in JSON stands for, likewise.

    Raises:
      UserError: it is no JSON.
    """
    try:
        return json.loads(text, object_pairs_hook=make_object)
    except UserError:
        raise
    except ValueError as e:
        raise UserError(f"{what} is not JSON: {e}") from e
    except RecursionError as e:
        raise UserError(f"{what} is not JSON that can be read: nested too deeply") from e
