"""Checks of the texts that callers of a loaded model pass."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from albert.core.errors import UserError


def as_list(values: object, needed: str) -> list[Any]:
    """Returns the elements of an iterable; raises a `UserError` for a single text or another value.

    `needed` is what the message asks for, such as "a list of texts".
    """
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise UserError(f"{needed} is needed, not {values!r:.40}")
    return list(values)


def text(value: object, name: str) -> str:
    """Returns a text; raises a `UserError` for any other value."""
    if not isinstance(value, str):
        raise UserError(f"{name} is {value!r:.40}, not a string")
    return value


def texts(values: object) -> list[str]:
    """Returns the texts of an iterable; raises the errors of `as_list` and `text`."""
    elements = as_list(values, "a list of texts")
    return [text(value, f"text {number}") for number, value in enumerate(elements)]


def tuples(values: object, *names: str) -> list[tuple[Any, ...]]:
    """Returns an iterable's elements; raises a `UserError` unless each has one value per name."""
    needed = f"({', '.join(names)})"
    checked = []
    for number, value in enumerate(as_list(values, f"a list of {needed}")):
        one = () if isinstance(value, str) or not isinstance(value, Iterable) else tuple(value)
        if len(one) != len(names):
            raise UserError(f"{needed} is needed, but element {number} is {value!r:.40}")
        checked.append(one)
    return checked
