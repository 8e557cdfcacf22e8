"""The cores of this machine that the process may use."""

from __future__ import annotations

import os
import sys


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
