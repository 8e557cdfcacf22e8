"""Printing JSON for programs: strict, whatever the values come from."""

from __future__ import annotations

import json
import math
import sys
from typing import Any


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
