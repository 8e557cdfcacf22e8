"""The cores of a worker, and the threads it starts on them."""

import os

import pytest

from albert.devices import host
from tests.helpers.files import write_files

GROUP = "sys/fs/cgroup/jobs/mine"
V2 = {"proc/self/cgroup": "0::/jobs/mine\n"}
V1 = {
    "proc/self/cgroup": "5:cpu,cpuacct:/mine\n4:cpuset:/mine\n",
    "sys/fs/cgroup/cpu/mine/cpu.cfs_period_us": "100000\n",
    "sys/fs/cgroup/cpuset/mine/cpuset.effective_cpus": "0-31",
}


@pytest.mark.parametrize(
    ("cores", "bound", "files", "workers", "count"),
    [
        (64, 64, V2, 1, 64),
        (64, 64, V2, 8, 8),
        # The launcher has bound each worker to separate cores, or all workers of a socket to its
        # cores.
        (64, 8, V2, 8, 8),
        (64, 32, V2, 8, 8),
        (64, 1, V2, 8, 1),
        (2, 2, V2, 3, 1),
        (64, 64, {**V2, f"{GROUP}/cpu.max": "400000 100000"}, 1, 4),
        (64, 64, {**V2, "sys/fs/cgroup/jobs/cpu.max": "350000 100000"}, 2, 1),
        (64, 64, {**V2, f"{GROUP}/cpu.max": "max 100000"}, 2, 32),
        # A container with dedicated cores.
        (64, 8, {**V2, f"{GROUP}/cpuset.cpus.effective": "0-3,8-11\n"}, 2, 4),
        (64, 3, {**V2, f"{GROUP}/cpuset.cpus.effective": "1,3,5\n"}, 1, 3),
        (64, 64, {**V2, f"{GROUP}/cpuset.cpus.effective": "\n"}, 1, 64),
        # Version 1, with a quota and without.
        (64, 64, {**V1, "sys/fs/cgroup/cpu/mine/cpu.cfs_quota_us": "600000"}, 2, 3),
        (64, 64, {**V1, "sys/fs/cgroup/cpu/mine/cpu.cfs_quota_us": "-1"}, 2, 16),
    ],
)
def test_cores_respect_binding_and_quotas(
    tmp_path, monkeypatch, cores, bound, files, workers, count
):
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(bound)))
    assert host.count_cores(workers, write_files(tmp_path, files)) == count


@pytest.mark.parametrize(
    ("given", "expected", "end"),
    [
        # What the user has set stays.
        ({}, ["4", "4", "4"], ""),
        ({"TF_NUM_INTRAOP_THREADS": "7"}, ["7", "4", "4"], ", but TF_NUM_INTRAOP_THREADS=7"),
    ],
)
def test_a_worker_has_as_many_threads_as_cores(monkeypatch, as_worker, log, given, expected, end):
    as_worker(1, 2)
    monkeypatch.setattr(host, "count_cores", lambda workers: 8 // workers)
    for name in host.VARIABLES:
        # Also undoes what the function sets.
        monkeypatch.setenv(name, given.get(name, ""))
        if name not in given:
            monkeypatch.delenv(name)
    host.limit_threads()
    assert [os.environ[name] for name in host.VARIABLES] == expected
    assert log() == [f"Threads: 4, an equal share of the host's cores for each of 2 workers{end}"]
