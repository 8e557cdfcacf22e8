"""The choice of test modules by `make test-near`."""

import pytest

from tests.helpers.forking import ROOT
from tests.near import near


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
        ("tests/test_docs.py", ["test_docs.py"], ["test_near.py"]),
        ("tests/helpers/race.py", ["tasks/race/test_examples.py"], ["test_conformance.py"]),
        ("docs/race.md", [], ["tasks/race/test_examples.py"]),
    ],
)
def test_near_modules_are_found(path, among, absent):
    found = {str(module.relative_to(ROOT / "tests")) for module in near(ROOT / path)}
    assert found >= {*among} and not found & {*absent} and bool(found) == bool(among)
