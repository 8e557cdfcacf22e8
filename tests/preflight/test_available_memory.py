"""Available memory, read from Linux files and from the tools of the cards."""

import pytest

from albert.preflight.memory import Memory, card_memory, host_memory
from albert.preflight.settings import parse_size
from tests.helpers.files import write_files

MEMINFO = {
    "proc/meminfo": "MemTotal:  24000000 kB\nMemFree:  100000 kB\nMemAvailable:  20000000 kB\n"
}
UNLIMITED = "9223372036854771712\n"


def test_the_hosts_available_memory_is_read(tmp_path):
    root = str(tmp_path)
    assert host_memory(root=root) is None, "of another system nothing is known"
    write_files(tmp_path, MEMINFO)
    assert host_memory(root=root) == (20000000 * 1024, "available on this host")
    assert host_memory(in_use=5000, root=root).size == 20000000 * 1024 + 5000


@pytest.mark.parametrize(
    ("groups", "file"),
    [
        # Version 2: the smallest limit on the whole path counts.
        ("0::/jobs/mine\n", "jobs/mine/memory.max"),
        ("0::/jobs/mine\n", "jobs/memory.max"),
        ("0::/jobs/mine\n", "memory.max"),
        # Inside a container.
        ("0::/\n", "memory.max"),
        ("0::/../../mine\n", "memory.max"),
        # Version 1, also in parallel with version 2.
        ("4:memory:/slurm/job_1\n0::/\n", "memory/slurm/job_1/memory.limit_in_bytes"),
        ("4:memory:/slurm/job_1\n", "memory/slurm/memory.limit_in_bytes"),
        ("4:memory:/docker/1f\n", "memory/memory.limit_in_bytes"),
        ("9:name=a:b:/\n4:memory:/a:b\n", "memory/a:b/memory.limit_in_bytes"),
    ],
)
def test_the_smallest_limit_counts(tmp_path, groups, file):
    no_limits = {
        "sys/fs/cgroup/jobs/mine/memory.max": "max\n",
        "sys/fs/cgroup/jobs/memory.max": "17000000000\n",
        "sys/fs/cgroup/memory/slurm/job_1/memory.limit_in_bytes": UNLIMITED,
        "sys/fs/cgroup/memory/memory.limit_in_bytes": UNLIMITED,
    }
    limits = {**MEMINFO, **no_limits, f"sys/fs/cgroup/{file}": "4000000000\n"}
    root = write_files(tmp_path, {**limits, "proc/self/cgroup": groups})
    expected = 4000000000, f"allowed by {root}/sys/fs/cgroup/{file}"
    assert host_memory(in_use=5000, root=root) == expected


def test_a_limit_beyond_the_memory_does_not_count(tmp_path):
    files = {
        **MEMINFO,
        "proc/self/cgroup": "4:memory:/\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": UNLIMITED,
        # A group that this process is not in.
        "sys/fs/cgroup/memory/other/memory.limit_in_bytes": "1000\n",
    }
    assert host_memory(root=write_files(tmp_path, files)).source == "available on this host"


def test_sizes_are_parsed_with_their_units():
    sizes = {"32GB": 32 * 10**9, "96 GiB": 96 * 2**30, "31.5GB": 31_500_000_000}
    sizes |= {"500MB": 500 * 10**6, "500MiB": 500 * 2**20}
    assert {text: parse_size(text) for text in sizes} == sizes


@pytest.mark.parametrize(
    "text",
    ["", "32", "GB", "-1GB", "0GB", "0.0000000001MB", "32gb", "1e3GB", "32GB.", "9" * 400 + "GB"],
)
def test_an_invalid_size_is_an_error(text):
    with pytest.raises(ValueError, match="is not a size; write it like 32GB"):
        parse_size(text)


@pytest.mark.parametrize(
    ("kind", "tool", "output", "size"),
    [
        ("gpu", "nvidia-smi", "memory.total [MiB]\n24564 MiB\n24564 MiB\n", 24564 * 2**20),
        ("hpu", "hl-smi", "memory.total [MiB]\n98304 MiB\n", 98304 * 2**20),
        # It is not known which of them the job would get.
        ("gpu", "nvidia-smi", "memory.total [MiB]\n24564 MiB\n8192 MiB\n", None),
        ("gpu", "nvidia-smi", "memory.total [MiB]\n[N/A]\n", None),
        ("gpu", "another-smi", "24564 MiB\n", None),
        ("hpu", "hl-smi", "32768 MiB\n'; exit 9; echo '", None),
    ],
)
def test_a_cards_memory_is_what_its_tool_says(tmp_path, monkeypatch, kind, tool, output, size):
    script = f"#!/bin/sh\ncase $* in *memory.total*) printf '{output}' ;; esac\n"
    write_files(tmp_path, {tool: script})
    monkeypatch.setenv("PATH", str(tmp_path))
    assert card_memory(kind) == (Memory(size, f"on a card, from {tool}") if size else None)
