"""Memory: available, by hand for a small step, and as measured for models."""

import pytest
import tensorflow.compat.v1 as tf

from albert.optimization import OptimizerOptions, build_train_step
from albert.preflight.memory import cpu_memory, estimate_memory, host_memory
from albert.preflight.settings import parse_size
from benchmarks.memory import make_step
from tests.helpers.files import write_files

MEMINFO = {"proc/meminfo": "MemTotal:  24000000 kB\nMemAvailable:  20000000 kB\n"}
UNLIMITED = "9223372036854771712\n"


def test_the_hosts_available_memory_is_read(tmp_path):
    root = str(tmp_path)
    assert host_memory(root=root) is None, "of another system nothing is known"
    write_files(tmp_path, MEMINFO)
    assert host_memory(root=root) == (20000000 * 1024, "available on this host")
    assert host_memory(in_use=5000, root=root).size == 20000000 * 1024 + 5000
    # A limit beyond the memory, and one of a group that this process is not in.
    groups = {"memory/memory.limit_in_bytes": UNLIMITED, "memory/other/memory.limit_in_bytes": "9"}
    groups = {f"sys/fs/cgroup/{name}": limit for name, limit in groups.items()}
    write_files(tmp_path, {**groups, "proc/self/cgroup": "4:memory:/\n"})
    assert host_memory(root=root).source == "available on this host"


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


def test_sizes_are_parsed_with_their_units_or_refused():
    sizes = {"32GB": 32 * 10**9, "96 GiB": 96 * 2**30, "31.5GB": 31_500_000_000}
    sizes |= {"500MB": 500 * 10**6, "500MiB": 500 * 2**20}
    assert {text: parse_size(text) for text in sizes} == sizes
    others = "32", "GB", "-1GB", "0GB", "0.0000000001MB", "32gb", "1e3GB", "32GB.", "9" * 400 + "GB"
    for text in ("", *others):
        with pytest.raises(ValueError, match="is not a size; write it like 32GB"):
            parse_size(text)


def small_step(accumulation: int) -> dict[str, int]:
    """Builds 8 x 5 inputs through two weight matrices with a tanh between them."""
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [8, 5])
        first = tf.get_variable("first", [5, 7])
        second = tf.get_variable("second", [7, 3])
        loss = tf.reduce_sum(tf.matmul(tf.tanh(tf.matmul(x, first)), second))
        options = OptimizerOptions(1e-3, 10, gradient_accumulation_steps=accumulation)
        return estimate_memory(build_train_step(loss, options).op)


def test_the_parts_of_a_small_step_are_as_by_hand():
    parts, accumulating = map(small_step, (1, 2))
    weights = 4 * (5 * 7 + 7 * 3)
    assert parts["parameters"] == weights
    assert parts["optimizer state"] == 2 * weights
    # The input and the tanh.
    assert parts["activations"] - 4 * (8 * 5 + 8 * 7) in range(0, 64)
    # The gradients of the variables and of the tanh, and that of a variable times its factor.
    by_hand = weights + 4 * 8 * 7 + 4 * 7 * 3
    assert parts["gradients and updates"] - by_hand in range(0, 64)
    assert parts["in all"] == sum(v for k, v in parts.items() if k != "in all")
    assert "accumulated gradients" not in parts
    # And three metrics of the step.
    assert accumulating["accumulated gradients"] == weights + 4 * 3


def test_resident_memory_is_as_by_hand():
    parts = {"activations": 50, "gradients and updates": 30, "in all": 200}
    program = cpu_memory({**parts, "activations": -30, "in all": 0})
    assert cpu_memory(parts) == 200 + 8 + program
    assert cpu_memory({**parts, "accumulated gradients": 7}) == 200 + 8 + 7 + program


# Gigabytes of a program before training and at its peak, measured by benchmarks/memory.py.
@pytest.mark.parametrize(
    ("size", "accumulation", "checkpointing", "program", "peak"),
    [
        ("base", 1, False, 0.47, 2.89),
        pytest.param("xxlarge", 2, True, 0.48, 7.24, marks=pytest.mark.slow),
    ],
)
def test_the_estimate_is_as_measured(size, accumulation, checkpointing, program, peak):
    path = f"configs/albert_{size}_v2.json"
    with tf.Graph().as_default():
        step, _ = make_step(path, 4, 384, checkpointing, accumulation)
        needed = cpu_memory(estimate_memory(step)) / 1e9
    assert program + needed == pytest.approx(peak, rel=0.15)
