"""`albert compare-devices`, between the devices that every machine has."""

import os

import pytest

from albert.cli.compare_devices import report
from albert.core.errors import UserError
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
