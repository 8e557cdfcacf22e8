"""What `make test` skips, and the lines at the end that say why."""

from __future__ import annotations

import types

import pytest

from tests.helpers import needs


class Item:
    """A collected test that requests fixtures, and may take longer."""

    def __init__(self, *fixtures: str, slow: bool = False):
        self.fixturenames, self.slow, self.reasons = fixtures, slow, []

    def get_closest_marker(self, name: str) -> bool:
        return self.slow and name == "slow"

    def add_marker(self, mark) -> None:
        self.reasons.append(mark.kwargs["reason"])


@pytest.mark.parametrize(
    ("item", "quick", "reasons"),
    [
        (Item("tmp_path"), True, []),
        (Item("tmp_path", "torch"), True, ["need PyTorch: make test-all"]),
        (Item("torch"), False, []),
        (Item("mpirun"), False, ["need Horovod: make test-all"]),
        (Item(slow=True), True, ["take longer: make test-all"]),
        (Item(slow=True), False, []),
    ],
)
def test_tests_are_skipped_before_their_fixtures_run(item, quick, reasons, monkeypatch):
    for name, exists in (("torch", True), ("mpirun", False)):
        need = needs.NEEDS[name]._replace(exists=lambda exists=exists: exists)
        monkeypatch.setitem(needs.NEEDS, name, need)
    needs.skip_what_is_missing([item], quick)
    assert item.reasons == reasons
    # What `make test` skips, `make test-all` runs, and nothing else.
    assert not quick or needs.is_quick(item) == (not reasons)


def test_skipped_tests_are_counted_by_what_they_need():
    reasons = ["need PyTorch: make test-all"] * 42 + ["take longer: make test-all", "no oneDNN"]
    reports = [types.SimpleNamespace(longrepr=("file", 1, f"Skipped: {r}")) for r in reasons]
    assert needs.lines_of_skipped(reports) == [
        "42 tests need PyTorch: make test-all",
        "1 test take longer: make test-all",
        "1 skipped: no oneDNN",
    ]


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
