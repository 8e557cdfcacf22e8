"""The choice of test modules by `make test-near`, and what may be skipped."""

import types

import pytest

from tests.helpers import needs
from tests.helpers.forking import ROOT
from tools.near import near


@pytest.mark.parametrize(
    ("path", "among", "absent"),
    [
        ("albert/core/files.py", ["core/test_files.py"], ["test_run_squad_v1.py"]),
        ("albert/tokenization.py", ["test_tokenization.py"], ["test_workers.py"]),
        ("albert/optimizers/sharded.py", ["optimizers/test_sharded.py"], ["test_workers.py"]),
        # Only modules of the product import it.
        ("albert/tokenizers/sentencepiece_text.py", ["test_tokenization.py"], ["test_docs.py"]),
        # A program, which only whole runs test.
        ("run_race.py", ["test_conformance.py"], ["tasks/race/test_task.py"]),
        ("tests/test_docs.py", ["test_docs.py"], ["test_tools.py"]),
        ("tests/helpers/race.py", ["tasks/race/test_examples.py"], ["test_conformance.py"]),
        ("docs/entities.md", [], ["tasks/race/test_examples.py"]),
    ],
)
def test_near_modules_are_found(path, among, absent):
    found = {str(module.relative_to(ROOT / "tests")) for module in near(ROOT / path)}
    assert found >= {*among} and not found & {*absent} and bool(found) == bool(among)


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
