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


PROCESSOR = "processor\t: 0\nvendor_id\t: Maker\nmodel name\t: EPYC\nstepping\t: 4\nflags\t\t: "
PROCESSOR += "fpu sse {} sha_ni\nbugs\t\t: amx_bf16\n\n"
SKYLAKE = "avx avx2 avx512f avx512dq avx512vl"
SLOW, FAST = "the processor has neither AVX512_BF16 nor AMX", "the processor has AVX512_BF16"


@pytest.mark.parametrize(
    ("flags", "said", "bfloat16"),
    [
        ("avx", "no AVX2", (False, SLOW)),
        ("avx avx2", "AVX2", (False, SLOW)),
        # The names of some integer instructions begin with the same letters.
        (f"{SKYLAKE} avx512_vnni amx_int8", "AVX2, AVX-512, AVX512_VNNI", (False, SLOW)),
        (f"{SKYLAKE} avx512_bf16", "AVX2, AVX-512, AVX512_BF16", (True, FAST)),
        (
            f"amx_bf16 {SKYLAKE} avx512_bf16 amx_tile",
            "AVX2, AVX-512, AVX512_BF16, AMX",
            (True, f"{FAST} and AMX"),
        ),
    ],
)
def test_instructions_tell_whether_bfloat16_is_fast(tmp_path, flags, said, bfloat16):
    files = {"proc/cpuinfo": PROCESSOR.format(flags) * 2}
    cpu = host.find_processor(write_files(tmp_path, files))
    assert str(cpu) == f"EPYC ({said})"
    assert cpu.bfloat16() == bfloat16


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ("avx2", "AVX2, limited by ONEDNN_MAX_CPU_ISA=avx2"),
        ("AVX512_CORE_VNNI", "AVX2, AVX-512, limited by ONEDNN_MAX_CPU_ISA=AVX512_CORE_VNNI"),
        ("AVX512_CORE_BF16", "AVX2, AVX-512, AVX512_BF16"),
        ("ALL", "AVX2, AVX-512, AVX512_BF16"),
    ],
)
def test_instructions_that_onednn_may_not_use_do_not_count(tmp_path, monkeypatch, limit, said):
    monkeypatch.setenv(host.LIMIT, limit)
    files = {"proc/cpuinfo": PROCESSOR.format(f"{SKYLAKE} avx512_bf16")}
    cpu = host.find_processor(write_files(tmp_path, files))
    assert str(cpu) == f"EPYC ({said})"
    assert cpu.bfloat16()[0] == ("limited" not in said)


@pytest.mark.parametrize(
    "files", [{}, {"proc/cpuinfo": "processor\t: 0\nFeatures\t: fp bf16\nCPU part\t: 0xd40\n"}]
)
def test_an_unknown_processor_is_reported_as_unknown(tmp_path, files):
    cpu = host.find_processor(write_files(tmp_path, files))
    assert str(cpu) == "unknown (unknown instruction sets)"
    assert cpu.bfloat16() == (None, "")


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
def test_unknown_memory_of_a_card_is_omitted(on_device, kind):
    """TensorFlow itself raises the error here, since this machine has no card."""
    on_device(kind)
    if kind != "cpu":
        with pytest.raises((ValueError, RuntimeError, tf.errors.OpError)):
            tf.config.experimental.get_memory_info(f"{kind.upper()}:0")
    assert memory_use.device_memory() is None
    assert list(memory_use.table()) == ["peak host memory"]
