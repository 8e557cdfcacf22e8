"""`albert compare-devices`, between the devices that every machine has."""

import os

import pytest
import tensorflow.compat.v1 as tf

from albert.cli import compare_devices, lifecycle
from albert.cli.compare_devices import report
from albert.core.errors import UserError
from albert.preflight import device_values
from tests.helpers.running import albert, run


@pytest.mark.slow
def test_devices_are_compared_in_two_processes():
    """bfloat16 in the matrix products changes training and no single operation."""
    environment = {**os.environ, "TF_BF16_CONVERSION": "basic"}
    result = run([*albert("compare-devices"), "--device=cpu"], env=environment)
    assert result.returncode == 0, result.stderr
    first, *lines, last = result.stdout.splitlines()
    assert first == "comparing the CPU with: cpu (--device=cpu)"
    rows = {line[6:38].strip(): float(line[38:]) for line in lines}
    differ = {"losses of a training", "weights after it"}
    assert {name for name, value in rows.items() if value > 0} == differ
    assert len(rows) == 11
    assert last == "the devices agree"
    assert rows["weights after it"] < 0.01


def test_nan_counts_as_a_difference(capsys):
    with pytest.raises(UserError, match="the greatest value: losses$"):
        report({"GELU": 0.001, "losses": float("nan")}, 0.01)
    assert "FAILS losses" in capsys.readouterr().out
    report({"GELU": 0.001}, 0.01)
    assert "the devices agree" in capsys.readouterr().out


def test_an_operation_that_fails_on_a_device_is_an_error_of_one_line(monkeypatch):
    def fail(kind: str) -> None:
        with tf.Graph().as_default(), tf.Session() as session:
            session.run(tf.debugging.check_numerics(tf.constant(float("nan")), "no number"))

    monkeypatch.setattr(device_values, "compute_values", fail)
    # It would quieten the tests that follow.
    monkeypatch.setattr(lifecycle, "quieten_tensorflow", lambda: None)
    with pytest.raises(UserError, match=r"^--device=cpu: [^\n]+$"):
        compare_devices._compute("cpu", {})
