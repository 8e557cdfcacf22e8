"""The report of `albert check` on a step's memory and type, by machine and workers."""

import re
import types

import pytest
import tensorflow.compat.v1 as tf

from albert.devices import device
from albert.devices.machine import Cpu
from albert.distributed import collectives
from albert.optimization import OptimizerOptions, build_train_step
from albert.precision import configuration
from albert.preflight import checks
from albert.preflight.memory import Memory, estimate_memory
from albert.preflight.report import Report

JOB = types.SimpleNamespace(steps=lambda: (10, 0))
GB = 10**9


@pytest.fixture(scope="module")
def step():
    """Returns a step of a single weight matrix of 40 MB: 0.2 GB with all that belongs to it."""
    with tf.Graph().as_default():
        weights = tf.get_variable("weights", [1000, 10000])
        loss = tf.reduce_sum(tf.matmul(tf.placeholder(tf.float32, [8, 1000]), weights))
        return build_train_step(loss, OptimizerOptions(1e-3, 10))


@pytest.fixture
def rows(step, monkeypatch):
    def describe(kind="cpu", host=None, workers=1, rank=0, device_memory=None):
        monkeypatch.setattr(device, "kind", lambda: kind)
        monkeypatch.setattr(checks, "host_memory", lambda in_use: host)
        monkeypatch.setattr(checks, "peak_host_memory", lambda: 5 * 10**8)
        monkeypatch.setattr(collectives, "local_size", lambda: workers)
        monkeypatch.setattr(collectives, "local_rank", lambda: rank)
        report = Report()
        with report.section("memory"):
            checks.describe_memory(report, JOB, step, device_memory)
        return {row.item: row for row in report.rows}

    return describe


def needed(row):
    return float(re.match(r"([\d.]+) GB needed", row.value)[1])


def test_a_card_must_hold_the_step(rows, step):
    size = estimate_memory(step.op)["in all"]
    for room, fits in ((size, True), (size - 1, False)):
        row = rows("gpu", device_memory=room)["device memory"]
        assert row.ok == fits
        assert needed(row) == pytest.approx(size / GB, abs=0.01)
        assert ("lower --train_batch_size" in row.value) != fits
    row = rows("hpu")["device memory"]
    assert row.ok and row.value.startswith("unknown; pass --device_memory=32GB")


def test_all_workers_of_a_host_must_fit(rows):
    one = needed(rows(host=Memory(10 * GB, "here"))["host memory"])
    four = rows(host=Memory(int(3.9 * one * GB), "here"), workers=4)["host memory"]
    assert needed(four) == pytest.approx(4 * one, abs=0.03)
    assert not four.ok and "needed by 4 workers, " in four.value
    assert "host memory" not in rows(host=Memory(1, "here"), workers=4, rank=1)


def test_with_a_card_the_host_holds_program_and_checkpoint(rows):
    """Weights with their two moments take 0.12 GB, and the program half a gigabyte. The host of
    another machine is not checked."""
    row = rows("hpu", host=Memory(10 * GB, "here"))["host memory"]
    assert needed(row) == pytest.approx(0.62, abs=0.02)
    actual = rows("gpu", Memory(1, "here"), device_memory=32 * GB)
    assert all(row.ok for row in actual.values())
    assert actual["device memory"].value.endswith("32.00 GB given by --device_memory")
    assert "host memory" not in actual


WITH, WITHOUT, UNKNOWN = ("AVX-512", "AVX512_BF16"), ("AVX2",), None
HAS, HAS_NOT = "the processor has AVX512_BF16", "the processor has neither AVX512_BF16 nor AMX"


@pytest.mark.parametrize(
    ("kind", "instructions", "config", "value"),
    [
        ("cpu", WITH, None, f"float32; bfloat16 is faster: {HAS}"),
        *((kind, names, None, "float32") for kind, names in (("cpu", WITHOUT), ("gpu", WITH))),
        ("cpu", WITHOUT, "basic", f"bfloat16, by basic; float32 is faster: {HAS_NOT}"),
        *(("cpu", names, "basic", "bfloat16, by basic") for names in (WITH, UNKNOWN)),
        ("hpu", WITHOUT, "basic", "bfloat16, by basic"),
    ],
)
def test_another_type_is_named_where_it_is_faster(monkeypatch, kind, instructions, config, value):
    monkeypatch.setattr(device, "kind", lambda: kind)
    monkeypatch.setattr(checks.machine, "find_processor", lambda: Cpu("AMD", instructions))
    report = Report()
    checks.describe_choice(report, config and configuration.load(config))
    (row,) = report.rows
    assert row.value == value
    assert row.warns == ("float32 is faster" in value)
