"""JSON: reading it, where whatever is wrong is one line that names the file, and printing it."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from typing import Any

from albert.core.errors import UserError
from albert.core.files import check_readable


def read_json(path: str, what: str, make_object: Callable[[list], Any] | None = None) -> Any:
    """Reads a JSON file, without the byte order mark that it may begin with.

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
    """Parses JSON text, likewise.

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


def print_json(value: Any, indent: int | None = None) -> None:
    """Prints a value as JSON that every parser takes, and flushes it.

    A number that is not finite becomes null, half of a surrogate pair U+FFFD. Other characters
    stand for themselves where standard output can have all of them.
    """
    is_utf8 = sys.stdout.encoding.lower() == "utf-8"
    text = json.dumps(_strict(value), ensure_ascii=not is_utf8, allow_nan=False, indent=indent)
    print(text, flush=True)


def _strict(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_strict(key): _strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(item) for item in value]
    return value
