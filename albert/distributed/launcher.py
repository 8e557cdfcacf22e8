"""The rank of this process in its job, from its launcher's variables, and how it ends on an error.

This module does not import TensorFlow, so that programs without it can use it to report errors.
"""

from __future__ import annotations

import contextlib
import functools
import os
import socket
import sys
import time
from typing import NamedTuple

from albert.core.text import one_line

# Seconds.
_HEAD_START = 1.0
# Those that ranks other than 0 wait before they print an error.
REPEATED_AFTER = 2.0
# The variables of each launcher for the rank, the size, the rank on this host, and the size there.
_LAUNCHERS = {
    "mpirun": ("OMPI_COMM_WORLD_{}", ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")),
    "horovodrun": ("HOROVOD_{}", ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")),
    "srun": ("SLURM_{}", ("PROCID", "STEP_NUM_TASKS", "LOCALID", "STEP_TASKS_PER_NODE")),
}


class Worker(NamedTuple):
    """The rank of this process, and the size of its job."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1
    launcher: str | None = None


def _from_environment() -> Worker:
    for launcher, (pattern, names) in _LAUNCHERS.items():
        variables = [pattern.format(name) for name in names]
        if os.environ.keys() >= set(variables):
            # Slurm writes "2(x3)" for three nodes with two tasks each. The first number is enough.
            numbers = [os.environ[name].split("(")[0].split(",")[0] for name in variables]
            if not all(map(str.isdecimal, numbers)):
                # This runs on import, before errors can be reported in another way.
                shown = ", ".join(f"{name}={os.environ[name]}" for name in variables)
                program = os.path.basename(sys.argv[0])
                sys.exit(f"{program}: error: {shown}: not the numbers of a worker of {launcher}")
            rank, size, local_rank, local_size = map(int, numbers)
            return Worker(rank, size, local_rank, local_size, launcher)
    return Worker()


started = _from_environment()


def is_first() -> bool:
    """Returns whether this is the launcher's process 0; works before `collectives.join_job`."""
    return started.rank == 0


@functools.cache
def wait_for_rank_0() -> None:
    """Gives rank 0 a head start: waits a moment on the other ranks, the first time it is called."""
    if not is_first():
        time.sleep(_HEAD_START)


def label() -> str:
    """Returns the rank, size and host of this process for messages; "" if it is the only one."""
    if started.size == 1:
        return ""
    return f"rank {started.rank} of {started.size} on {socket.gethostname()}"


def fail(message: str, code: int) -> None:
    """Prints a one-line error message and ends the program."""
    rank = label()
    if rank and not is_first():
        # If rank 0 has the same error, it prints it first, and the launcher ends the other ranks
        # before they repeat it.
        time.sleep(REPEATED_AFTER)
    where = f"{rank}: " if rank else ""
    say(f"error: {where}{message}")
    if rank:
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
