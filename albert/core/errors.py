"""Errors a person can mend: one line that says what, where and what to do, and an exit code."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator

NO_UTF8 = (
    "is not UTF-8 text, as TensorFlow needs it: rename the file, or set PYTHONUTF8=1 where the "
    "locale is to blame"
)
# How TensorFlow's error begins at a step whose gradients are not finite.
NOT_FINITE = "the gradients' global norm"


class UserError(ValueError):
    """Something is wrong with the input or the environment; ends a program with exit code 1.

    Attributes:
      faults: the messages of several errors that this one stands for; its own if it is one.
    """

    exit_code = 1

    def __init__(self, *faults: str):
        """Takes one message or several."""
        super().__init__("; ".join(map(str, faults)))
        self.faults = faults


class FlagError(UserError):
    """Something is wrong with the command line; ends a program with exit code 2."""

    exit_code = 2


class ErrorCollector:
    """Collects errors that do not follow from each other, so that a person sees all at once."""

    def __init__(self):
        """Starts without any."""
        self._found: list[UserError] = []

    @contextlib.contextmanager
    def collect(self) -> Iterator[None]:
        """Collects the error that ends the block, if one does."""
        try:
            yield
        except UserError as e:
            self._found.append(e)

    def raise_all(self) -> None:
        """Raises one error for all that were collected; a `FlagError` if all of them are.

        Raises:
          UserError: there were some.
        """
        if self._found:
            of_flags = all(isinstance(error, FlagError) for error in self._found)
            faults = [fault for error in self._found for fault in error.faults]
            raise (FlagError if of_flags else UserError)(*faults)


def graph_message(error: UserError) -> str:
    """Returns the message that a graph raises for an error, so that `user_error_in` finds it."""
    return f"{UserError.__name__}: {error}"


def user_error_in(message: str) -> UserError | None:
    """Returns the `UserError` that a graph speaks of, None if it is of something else.

    Args:
      message: of the error of an assertion with `graph_message` as its data.
    """
    found = re.search(rf"\[{UserError.__name__}: (.+)\]", message)
    return UserError(found[1]) if found else None


def is_utf8(text: str) -> bool:
    """Tells whether a text from the command line or another program can be expressed in UTF-8."""
    return text == text.encode(errors="replace").decode()


def see_help(word: str, known: Iterable[str], where: str = "--help") -> str:
    """Returns the end of a message about an unknown word: similar known ones, and where to look."""
    import difflib

    near = difflib.get_close_matches(word, known, cutoff=0.7)
    return f"; did you mean {' or '.join(near)}? See {where}" if near else f"; see {where}"
