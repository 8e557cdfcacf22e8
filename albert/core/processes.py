"""Processes: the cores they may use, and TensorFlow, which does not survive a fork."""

from __future__ import annotations

import os
import sys

from albert.core.errors import UserError

_running_in: set[int] = set()


def check_not_forked() -> None:
    """Remembers this process, in which TensorFlow is about to run, unless there is one already.

    Raises a `UserError` if this process was forked from that one: TensorFlow and OpenVINO would
    wait forever for their threads.
    """
    _running_in.update(() if _running_in else (os.getpid(),))
    if os.getpid() not in _running_in:
        raise UserError(
            "this process was forked from one in which TensorFlow has run, whose threads it lacks: "
            "start processes with multiprocessing.get_context('spawn')"
        )


def usable_cores() -> int:
    """Returns the number of cores that this process may use."""
    # Only Linux binds processes to cores.
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def default_processes() -> int:
    """Returns the default number of worker processes: the usable cores, or 1 on macOS."""
    # Workers are forked, and lack the threads that the libraries of macOS may have.
    return 1 if sys.platform == "darwin" else usable_cores()
