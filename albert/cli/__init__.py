"""The command `albert`, and the programs of the reference."""

import os
import sys

from albert.core.errors import UserError

# TensorFlow's core prints a page about the processor when it is imported; warnings still show.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")


_closed_streams: set[str] = set()


def _open_closed_streams() -> None:
    """Gives a process that was started without a standard stream an empty one.

    Otherwise the next file to be opened gets its number, and what is meant for the stream.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            _closed_streams.add(name)
            os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w", closefd=False))


_open_closed_streams()


def require_standard_output() -> None:
    """Raises a `UserError` if what is printed would be lost."""
    if "stdout" in _closed_streams:
        raise UserError("standard output is closed: what is found could not be printed")
