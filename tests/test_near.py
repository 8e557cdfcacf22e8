"""Which test modules `make test-near` takes."""

from __future__ import annotations

from tests.helpers.forking import ROOT
from tests.near import near


def test_what_is_near():
    for path, among, absent in (
        ("runtime/files.py", "runtime/test_files.py", "test_run_squad_v1.py"),
        # A program, which whole runs alone test.
        ("run_classifier.py", "test_run_classifier.py", "glue/test_task.py"),
        ("tests/test_docs.py", "test_docs.py", "test_near.py"),
        ("tests/helpers/race.py", "race/test_examples.py", "test_conformance.py"),
        ("docs/race.md", None, "race/test_features.py"),
    ):
        found = {str(module.relative_to(ROOT / "tests")) for module in near(ROOT / path)}
        assert absent not in found and (among in found if among else not found), path
