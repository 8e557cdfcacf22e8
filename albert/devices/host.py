"""The host: the cores of this process, and limits of its cgroups."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import tensorflow.compat.v1 as tf

from albert.core.processes import usable_cores
from albert.distributed import collectives

# Thread counts of TensorFlow, within an operation and across operations, and of OpenMP.
VARIABLES = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS")


def limit_threads() -> None:
    """Limits the threads of this process to its share of the cores, and logs their number.

    Call this before the first session. Environment variables that are already set stay.
    """
    workers = collectives.local_size()
    count = count_cores(workers)
    user_set = [f"{name}={os.environ[name]}" for name in VARIABLES if name in os.environ]
    for name in VARIABLES:
        os.environ.setdefault(name, str(count))
    tf.logging.info(
        "Threads: %d%s%s",
        count,
        f", an equal share of the host's cores for each of {workers} workers" * (workers > 1),
        f", but {', '.join(user_set)}" * bool(user_set),
    )


def count_cores(workers: int, root: str = "/") -> int:
    """Returns the number of cores for each worker on this host or in this container.

    It is at most an equal share, and fewer if a launcher has bound this worker to some cores.
    """
    names = "cpuset", "cpuset.effective_cpus", "cpuset.cpus.effective"
    sets = (len(parse_cores(content)) for _, content in cgroup_settings(*names, root))
    allowed = [os.cpu_count() or 1, *filter(None, sets), *_quotas(root)]
    return max(1, int(min(usable_cores(), min(allowed) / workers)))


def parse_cores(text: str) -> set[int]:
    """Returns the numbers of a list of cores such as "0-3,8"."""
    ranges = re.findall(r"(\d+)(?:-(\d+))?", text)
    return {n for first, last in ranges for n in range(int(first), int(last or first) + 1)}


def _quotas(root: str) -> list[float]:
    """Returns the CPU quota of each cgroup, in cores."""
    quotas = []
    for file, content in cgroup_settings("cpu", "cpu.cfs_quota_us", "cpu.max", root):
        # Version 2 has the period next to the quota, version 1 in a separate file.
        period = read(file.replace("quota", "period")) if "cfs" in file else ""
        numbers = f"{content} {period}".split()
        # "max" and -1 mean no limit.
        if len(numbers) == 2 and all(map(str.isdecimal, numbers)) and int(numbers[1]):
            quotas.append(int(numbers[0]) / int(numbers[1]))
    return quotas


def cgroup_settings(
    controller: str, old: str, new: str, root: str = "/"
) -> Iterator[tuple[str, str]]:
    """Yields path and content of a setting's files in this process's cgroup and all its parents.

    In a container, the cgroup's path may be the host's, of which only the container's root exists.
    `old` and `new` are the names of the file in versions 1 and 2 of cgroups.
    """
    groups = os.path.join(root, "sys/fs/cgroup")
    for line in read(os.path.join(root, "proc/self/cgroup")).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        top, name = (os.path.join(groups, controller), old) if controllers else (groups, new)
        parts = os.path.normpath(path).strip("/").split("/")
        for depth in range(len(parts) + 1):
            file = os.path.join(top, *parts[:depth], name)
            if content := read(file).strip():
                yield file, content


def read(path: str) -> str:
    """Returns a file's text; "" if it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
