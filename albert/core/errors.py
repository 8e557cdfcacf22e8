"""Errors that a user can fix: a one-line message with the problem, place and remedy."""

from __future__ import annotations

import contextlib
import importlib.machinery
import importlib.util
import re
from collections.abc import Iterable, Iterator

NO_UTF8 = (
    "is not UTF-8 text, which TensorFlow requires: write it in UTF-8, rename the file if it is a "
    "path, or set PYTHONUTF8=1 if the locale causes this"
)
# The beginning of TensorFlow's error message at a step with gradients that are not finite.
NOT_FINITE = "the gradients' global norm"


class UserError(ValueError):
    """An error in the input or the environment; the exit code is 1."""

    exit_code = 1


class FlagError(UserError):
    """A wrong command line, with exit code 2."""

    exit_code = 2


@contextlib.contextmanager
def reporting(fault: str, advice: str = "") -> Iterator[None]:
    """Converts an `OSError` in the block to a `UserError`: `fault`, the reason and `advice`."""
    try:
        yield
    except OSError as e:
        raise UserError(f"{fault}: {e.strerror or e}{advice}") from e


@contextlib.contextmanager
def optional(*packages: str, why: str = "") -> Iterator[None]:
    """Converts an `ImportError` in the block, which imports optional packages, to a `UserError`.

    Its message begins with `why`. `packages` are what pip must install, such as "onnx==1.18.0".
    """
    try:
        yield
    except ImportError as e:
        names = " ".join(packages)
        fault = f"{names} cannot be imported ({' '.join(str(e).split())})"
        if isinstance(e, ModuleNotFoundError):
            fault = f"the package {e.name} is missing"
        raise UserError(f"{why}{fault}: run `pip install {names}`") from e


def require(module: str, *packages: str, why: str = "") -> importlib.machinery.ModuleSpec:
    """Returns where a module is, without importing it; raises a `UserError` like `optional`."""
    with optional(*packages, why=why):
        spec = importlib.util.find_spec(module)
        if spec is None:
            raise ModuleNotFoundError(name=module)
    return spec


def graph_message(error: UserError) -> str:
    """Returns the message with which a graph reports an error; `user_error_in` parses it."""
    return f"{UserError.__name__}: {error}"


def user_error_in(message: str) -> UserError | None:
    """Returns the `UserError` in a message of TensorFlow that has a `graph_message`, or None."""
    match = re.search(rf"\[{UserError.__name__}: (.+)\]", message)
    return UserError(match[1]) if match else None


def see_help(word: str, known: Iterable[str], where: str = "--help") -> str:
    """Returns the end of a message about an unknown word: similar words, and a reference."""
    import difflib

    near = difflib.get_close_matches(word, known, cutoff=0.7)
    return f"; did you mean {' or '.join(near)}? See {where}" if near else f"; see {where}"
