"""The rank of this process in its job, from the environment variables of its launcher.

Without TensorFlow, so that a program that needs none of it can end as all do.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from typing import NamedTuple

# Seconds.
_HEAD_START = 1.0
# Rank, size, rank on this host and their number there, as launchers name them.
_LAUNCHERS = {
    "mpirun": ("OMPI_COMM_WORLD_{}", ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")),
    "horovodrun": ("HOROVOD_{}", ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")),
    "srun": ("SLURM_{}", ("PROCID", "STEP_NUM_TASKS", "LOCALID", "STEP_TASKS_PER_NODE")),
}


class Worker(NamedTuple):
    """This process among those of its job."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1
    launcher: str | None = None


def _from_environment() -> Worker:
    for launcher, (pattern, names) in _LAUNCHERS.items():
        variables = [pattern.format(name) for name in names]
        if os.environ.keys() >= set(variables):
            # Slurm writes "2(x3)" for three nodes with two tasks each; the first is near enough.
            numbers = [os.environ[name].split("(")[0].split(",")[0] for name in variables]
            if not all(map(str.isdecimal, numbers)):
                # Nothing has begun that could report it better.
                given = ", ".join(f"{name}={os.environ[name]}" for name in variables)
                program = os.path.basename(sys.argv[0])
                sys.exit(f"{program}: error: {given}: no numbers of a worker of {launcher}")
            rank, size, local_rank, local_size = map(int, numbers)
            return Worker(rank, size, local_rank, local_size, launcher)
    return Worker()


started = _from_environment()


def is_first() -> bool:
    """Tells whether this is the launcher's process number 0, also before `start`."""
    return started.rank == 0


def wait_for_rank_0() -> None:
    """Lets a moment pass on the other ranks, before what only one of all should do."""
    if not is_first():
        time.sleep(_HEAD_START)


def label() -> str:
    """Says which process of a job this is, for messages; "" if it is the only one."""
    if started.size == 1:
        return ""
    return f"rank {started.rank} of {started.size} on {socket.gethostname()}"
