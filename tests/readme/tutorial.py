"""Runs the tutorial unchanged, on the model of `make demo`.

.venv/bin/python -m pytest tests/readme/tutorial.py     (half a minute; not part of `make test`)
"""

import json
import shutil

import pytest

from tests.helpers.forking import ROOT
from tests.readme.pages import BLOCKS, run_in

# Without the first block, which is `make demo`, and the last one, which needs a published model.
COMMANDS = [block.text for block in BLOCKS if block.page.name == "tutorial.md"][1:-1]
OUT = ROOT / "out/tools"


@pytest.fixture(scope="module")
def printed() -> list[str]:
    if not (ROOT / "demo_output/run-1/predictions.html").exists():
        pytest.skip("there is no model of the demo: run `make demo`")
    shutil.rmtree(OUT, ignore_errors=True)
    return [run_in(ROOT, text) for text in COMMANDS]


def test_the_training_improves_the_scores(printed):
    after, before = (
        json.loads((OUT / n / "eval_results.json").read_text()) for n in ("run", "before")
    )
    assert after["f1"] > before["f1"] + 10
    assert after["exact_match"] > before["exact_match"]


def test_the_commands_show_what_the_page_says(printed):
    check, _, _, mistakes, asked, served = printed
    assert "contexts          12\n  questions         24\n" in check
    assert check.count("\nexample ") == 5 and "is in [room 14]." in check
    assert "wrong" in mistakes
    assert "euros" in asked
    health, answer = served.split("}{")
    assert health.startswith('{"status":"ok"')
    assert json.loads("{" + answer)["answer"] in "The Falk drone is in room 19."
