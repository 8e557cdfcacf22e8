"""How many threads compute: one for each core that this worker has for itself."""

from __future__ import annotations

import os
import re

import tensorflow.compat.v1 as tf

from albert.core import cgroup
from albert.distributed import collectives

# Of TensorFlow within an operation and for several at once, and of libraries with OpenMP.
VARIABLES = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS")


def limit() -> None:
    """Sets the threads of this process, and logs them; to be called before the first session.

    By themselves the workers of a host would have a thread for each of its cores, each of them. A
    variable of the environment that is set stays as it is.
    """
    count = count_cores(collectives.local_size())
    given = [f"{name}={os.environ[name]}" for name in VARIABLES if name in os.environ]
    for name in VARIABLES:
        os.environ.setdefault(name, str(count))
    workers = collectives.local_size()
    tf.logging.info(
        "Threads: %d%s%s",
        count,
        f", a share of the host's cores for each of {workers} workers" * (workers > 1),
        f", but {', '.join(given)}" * bool(given),
    )


def count_cores(workers: int, root: str = "/") -> int:
    """Counts the cores of each of several workers on this host, or in this container.

    A launcher may have bound a worker to cores of its own; it gets no more than an equal share.

    Args:
      workers: on this host, with which its cores are shared.
      root: where `proc` and `sys` are.
    """
    allowed = [os.cpu_count() or 1, *_sets(root), *_quotas(root)]
    return max(1, int(min(len(os.sched_getaffinity(0)), min(allowed) / workers)))


def _sets(root: str) -> list[int]:
    """Returns how many cores each cgroup has."""
    names = "cpuset", "cpuset.effective_cpus", "cpuset.cpus.effective"
    ranges = [
        re.findall(r"(\d+)(?:-(\d+))?", content) for _, content in cgroup.settings(*names, root)
    ]
    return [sum(int(last or first) - int(first) + 1 for first, last in of) for of in ranges if of]


def _quotas(root: str) -> list[float]:
    """Returns how many cores' time each cgroup may take."""
    quotas = []
    for file, content in cgroup.settings("cpu", "cpu.cfs_quota_us", "cpu.max", root):
        # Version 2 has the period beside the quota, version 1 in a file of its own.
        period = cgroup.read(file.replace("quota", "period")) if "cfs" in file else ""
        numbers = f"{content} {period}".split()
        # "max" and -1 are no limit.
        if len(numbers) == 2 and all(map(str.isdecimal, numbers)) and int(numbers[1]):
            quotas.append(int(numbers[0]) / int(numbers[1]))
    return quotas
