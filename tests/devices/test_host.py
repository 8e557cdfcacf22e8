"""The host: cores of workers, their threads, the processor's features, and memory."""

import os
import resource
import sys
import types

import pytest
import tensorflow as tf

from albert.devices import host, memory_use
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
def test_usable_cores_are_counted(tmp_path, monkeypatch, cores, bound, files, workers, count):
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


def test_peak_host_memory_is_the_kernels_figure(monkeypatch):
    with open("/proc/self/status", encoding="ascii") as file:
        kilobytes = next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))
    assert memory_use.peak_host_memory() == pytest.approx(kilobytes * 1024, rel=0.01)
    # macOS has no such file, and a size in bytes.
    monkeypatch.setattr(host, "read", lambda path: "")
    usage = types.SimpleNamespace(ru_maxrss=5_000_000)
    monkeypatch.setattr(resource, "getrusage", lambda who: usage)
    monkeypatch.setattr(sys, "platform", "darwin")
    assert memory_use.peak_host_memory() == 5_000_000


@pytest.mark.parametrize("kind", ["cpu", "gpu", "hpu"])
def test_memory_of_a_card_is_reported_unless_it_is_unknown(on_device, monkeypatch, kind):
    """At first, TensorFlow itself raises the error here, since this machine has no card."""
    on_device(kind)
    assert memory_use.summary().startswith("peak host memory ")
    if kind != "cpu":
        with pytest.raises((ValueError, RuntimeError, tf.errors.OpError)):
            tf.config.experimental.get_memory_info(f"{kind.upper()}:0")
        info = {f"{kind.upper()}:0": {"current": 3 * 10**9, "peak": 5 * 10**9}}
        monkeypatch.setattr(tf.config.experimental, "get_memory_info", info.__getitem__)
        start = "device memory 3.00 GB, peak device memory 5.00 GB, peak host memory "
        assert memory_use.summary().startswith(start)
