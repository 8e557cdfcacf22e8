"""Ends a process that fails, alone or among the workers of a job, with one line that says why."""

from __future__ import annotations

import contextlib
import os
import sys
import time

from albert.distributed import launcher

# Seconds that other ranks wait with an error.
REPEATED_AFTER = 2.0


def fail(message: str, code: int) -> None:
    """Ends the program with a line that says why."""
    label = launcher.label()
    if label and not launcher.is_first():
        # What rank 0 finds too, it says; the launcher then ends the others before they repeat it.
        time.sleep(REPEATED_AFTER)
    where = f"{label}: " if label else ""
    say(f"error: {where}{message}")
    if label:
        # Without the usual clean-up, which would wait for workers that wait for this one. The
        # launcher sees that a worker has failed and ends the job.
        os._exit(code)
    sys.exit(code)


def say(message: str) -> None:
    """Prints one line on standard error, behind the program's name."""
    line = " ".join(message.split())
    with contextlib.suppress(BrokenPipeError):
        print(f"{os.path.basename(sys.argv[0])}: {line}", file=sys.stderr, flush=True)
