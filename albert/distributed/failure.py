"""Ends a process that fails, in a job or not, with a one-line error message."""

from __future__ import annotations

import contextlib
import os
import sys
import time

from albert.core.text import one_line
from albert.distributed import launcher

# Seconds that ranks other than 0 wait before they print an error.
REPEATED_AFTER = 2.0


def fail(message: str, code: int) -> None:
    """Prints a one-line error message and ends the program."""
    label = launcher.label()
    if label and not launcher.is_first():
        # If rank 0 has the same error, it prints it first, and the launcher ends the other ranks
        # before they repeat it.
        time.sleep(REPEATED_AFTER)
    where = f"{label}: " if label else ""
    say(f"error: {where}{message}")
    if label:
        # Skip the usual clean-up, which would wait for workers that wait for this one. The launcher
        # notices the failure and ends the job.
        os._exit(code)
    sys.exit(code)


def say(message: str) -> None:
    """Prints a message on one line on standard error, after the program's name."""
    with contextlib.suppress(BrokenPipeError):
        # In one piece, because mpirun puts a tag before each piece.
        sys.stderr.write(f"{os.path.basename(sys.argv[0])}: {one_line(message)}\n")
        sys.stderr.flush()
