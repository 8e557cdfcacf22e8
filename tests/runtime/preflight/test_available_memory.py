"""How much memory there is, from files as Linux has them and tools that cards come with."""

from __future__ import annotations

import pytest

from runtime.preflight.available_memory import Memory, card_memory, host_memory, parse_size

MEMINFO = "MemTotal:       24000000 kB\nMemFree:          100000 kB\nMemAvailable:   20000000 kB\n"
UNLIMITED = "9223372036854771712\n"


@pytest.fixture
def machine(tmp_path):
    """Writes files of a machine and returns its root."""

    def write(**files):
        files = {"proc/meminfo": MEMINFO, **files}
        for path, content in files.items():
            file = tmp_path / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content)
        return str(tmp_path)

    return write


def test_what_the_host_has(machine):
    assert host_memory(root=machine()) == (20000000 * 1024, "available on this host")
    assert host_memory(in_use=5000, root=machine()).size == 20000000 * 1024 + 5000


def test_another_system_says_nothing(tmp_path):
    assert host_memory(root=str(tmp_path)) is None


@pytest.mark.parametrize(
    ("groups", "file"),
    [
        # Version 2: the least of the whole path counts.
        ("0::/jobs/mine\n", "sys/fs/cgroup/jobs/mine/memory.max"),
        ("0::/jobs/mine\n", "sys/fs/cgroup/jobs/memory.max"),
        ("0::/jobs/mine\n", "sys/fs/cgroup/memory.max"),
        # Inside a container.
        ("0::/\n", "sys/fs/cgroup/memory.max"),
        ("0::/../../mine\n", "sys/fs/cgroup/memory.max"),
        # Version 1, also beside version 2.
        ("4:memory:/slurm/job_1\n0::/\n", "sys/fs/cgroup/memory/slurm/job_1/memory.limit_in_bytes"),
        ("4:memory:/slurm/job_1\n", "sys/fs/cgroup/memory/slurm/memory.limit_in_bytes"),
        ("4:memory:/docker/1f\n", "sys/fs/cgroup/memory/memory.limit_in_bytes"),
        ("9:name=a:b:/\n4:memory:/a:b\n", "sys/fs/cgroup/memory/a:b/memory.limit_in_bytes"),
    ],
)
def test_the_least_limit_counts(machine, groups, file):
    no_limits = {
        "sys/fs/cgroup/jobs/mine/memory.max": "max\n",
        "sys/fs/cgroup/jobs/memory.max": "17000000000\n",
        "sys/fs/cgroup/memory/slurm/job_1/memory.limit_in_bytes": UNLIMITED,
        "sys/fs/cgroup/memory/memory.limit_in_bytes": UNLIMITED,
    }
    root = machine(**{**no_limits, "proc/self/cgroup": groups, file: "4000000000\n"})
    assert host_memory(in_use=5000, root=root) == (4000000000, f"allowed by {root}/{file}")


def test_a_limit_beyond_the_memory_is_none(machine):
    files = {
        "proc/self/cgroup": "4:memory:/\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": UNLIMITED,
        # Of a group that this process is not in.
        "sys/fs/cgroup/memory/other/memory.limit_in_bytes": "1000\n",
    }
    assert host_memory(root=machine(**files)).source == "available on this host"


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("32GB", 32 * 10**9),
        ("96 GiB", 96 * 2**30),
        ("31.5GB", 31_500_000_000),
        ("500MB", 500 * 10**6),
        ("500MiB", 500 * 2**20),
    ],
)
def test_sizes(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text",
    ["", "32", "GB", "-1GB", "0GB", "0.0000000001MB", "32gb", "1e3GB", "32GB.", "9" * 400 + "GB"],
)
def test_what_is_no_size(text):
    with pytest.raises(ValueError, match="is no size; write it like 32GB"):
        parse_size(text)


@pytest.mark.parametrize(
    ("kind", "tool", "output", "size"),
    [
        ("gpu", "nvidia-smi", "memory.total [MiB]\n24564 MiB\n24564 MiB\n", 24564 * 2**20),
        ("hpu", "hl-smi", "memory.total [MiB]\n98304 MiB\n", 98304 * 2**20),
        # Which of them would be taken is not known.
        ("gpu", "nvidia-smi", "memory.total [MiB]\n24564 MiB\n8192 MiB\n", None),
        ("gpu", "nvidia-smi", "memory.total [MiB]\n[N/A]\n", None),
        ("gpu", "another-smi", "24564 MiB\n", None),
    ],
)
def test_a_card(tmp_path, monkeypatch, kind, tool, output, size):
    program = tmp_path / tool
    program.write_text(f"#!/bin/sh\ncase $* in *memory.total*) printf '{output}' ;; esac\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    expected = Memory(size, f"on a card, as {tool} says") if size else None
    assert card_memory(kind) == expected


def test_a_tool_that_fails_says_nothing(tmp_path, monkeypatch):
    program = tmp_path / "hl-smi"
    program.write_text("#!/bin/sh\necho '32768 MiB'\nexit 9\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert card_memory("hpu") is None
