"""Errors a person can mend: one line that says what, where and what to do, and an exit code."""

from __future__ import annotations

import re


class UserError(ValueError):
    """Something is wrong with the input or the environment; ends a program with exit code 1."""

    exit_code = 1


class FlagError(UserError):
    """Something is wrong with the command line; ends a program with exit code 2."""

    exit_code = 2


def user_error_in(message: str) -> UserError | None:
    """Returns the `UserError` that a Python function in a graph has raised, None if none has.

    Args:
      message: of TensorFlow's error, in which that one has a line with its name.
    """
    found = re.search(rf"^{UserError.__name__}: (.+)", message, re.MULTILINE)
    return UserError(found[1]) if found else None
