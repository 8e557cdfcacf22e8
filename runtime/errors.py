"""Errors a person can mend: one line that says what, where and what to do, and an exit code."""

from __future__ import annotations

import re

# How TensorFlow's error begins at a step whose gradients are not finite.
NOT_FINITE = "the gradients' global norm"


class UserError(ValueError):
    """Something is wrong with the input or the environment; ends a program with exit code 1."""

    exit_code = 1


class FlagError(UserError):
    """Something is wrong with the command line; ends a program with exit code 2."""

    exit_code = 2


def in_message(error: UserError) -> str:
    """Returns what a graph says of an error, so that `user_error_in` finds it."""
    return f"{UserError.__name__}: {error}"


def user_error_in(message: str) -> UserError | None:
    """Returns the `UserError` that a graph speaks of, None if it is of something else.

    Args:
      message: of the error of an assertion with `in_message` as its data.
    """
    found = re.search(rf"\[{UserError.__name__}: (.+)\]", message)
    return UserError(found[1]) if found else None
