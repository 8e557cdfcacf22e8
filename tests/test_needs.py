"""What may be skipped."""

import types

import pytest

from tests.helpers import needs


@pytest.mark.parametrize(
    ("reason", "quick", "outcome"),
    [
        ("need PyTorch: make test-all", False, "failed"),
        ("take longer: make test-all", True, "skipped"),
        ("on this machine, TensorFlow does not use oneDNN", False, "skipped"),
        ("need the figures of real text in ../shared: they are not public", False, "skipped"),
    ],
)
def test_in_ci_a_skip_is_a_failure(reason, quick, outcome, monkeypatch):
    monkeypatch.setenv("CI", "true")
    report = types.SimpleNamespace(skipped=True, outcome="skipped", longrepr=("f", 1, reason))
    needs.fail_in_ci(report, quick)
    assert report.outcome == outcome
