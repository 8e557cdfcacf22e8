"""The command `albert`, and the programs of the reference."""

import os
import sys

from albert.core.errors import UserError

# TensorFlow prints many lines about the processor when it is imported. Warnings still show.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")


_closed_streams: set[str] = set()


def _open_closed_streams() -> None:
    """Opens the null device for closed standard streams, whose numbers other files would get."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            _closed_streams.add(name)
            os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w", closefd=False))


_open_closed_streams()


def require_standard_output() -> None:
    """Raises a `UserError` if standard output is closed, so that results would be lost."""
    if "stdout" in _closed_streams:
        raise UserError("standard output is closed, so results cannot be printed; open it")
