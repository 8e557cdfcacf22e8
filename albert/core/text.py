"""Texts for messages and for the terminal."""

from __future__ import annotations

import ast
import contextlib
import itertools
from collections.abc import Iterable, Sequence
from typing import Any


def python_literal(text: str, default: Any) -> Any:
    """Returns the list, text or other value that a text has as Python writes it, or `default`."""
    with contextlib.suppress(ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return ast.literal_eval(text)
    return default


def first_line(error: BaseException | str) -> str:
    """Returns the first line of an error's message, or the error's type if it has no message."""
    # TensorFlow's errors show more than their message as a text.
    message = getattr(error, "message", None) or str(error)
    return next(iter(message.strip().splitlines()), type(error).__name__)


def listed(names: Sequence[str], most: int = 3) -> str:
    """Returns names in one line, such as "a, b, c, ..." for more than three names."""
    return ", ".join(names[:most]) + ", ..." * (len(names) > most)


def aligned(rows: Iterable[Sequence[str]], right: bool = False) -> list[str]:
    """Returns rows of any lengths as lines with aligned columns, all but the first one `right`."""
    columns = itertools.zip_longest(*(rows := list(rows)), fillvalue="")
    formats = [
        f"{{:{'>' if right and number else '<'}{max(map(len, column))}}}"
        for number, column in enumerate(columns)
    ]
    return ["  ".join(map(str.format, formats, row)).rstrip() for row in rows]


def printable(text: str) -> str:
    """Returns a text of the same length in which no character controls the terminal."""
    return "".join(c if c.isprintable() else " " if c.isspace() else "?" for c in text)


def one_line(text: str) -> str:
    """Returns a text from elsewhere as one printable line, without repeated spaces."""
    return printable(" ".join(text.split()))


def is_utf8(text: str) -> bool:
    """Returns whether UTF-8 can represent a text: it cannot represent halves of surrogate pairs.

    JSON can contain them, and Python replaces bytes of the command line by them.
    """
    return text == text.encode(errors="replace").decode()
