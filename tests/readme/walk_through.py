"""Runs the pages' commands that need neither network, card nor downloaded model, unchanged.

  .venv/bin/python -m pytest tests/readme/walk_through.py     (two minutes; not part of `make test`)

Small numbers replace those that take minutes. `pages.py` lists what is not run, and why.
"""

import pathlib
import re

import pytest

from tests.helpers.forking import ROOT
from tests.readme.pages import BLOCKS, run_in

pytestmark = pytest.mark.timeout(1500)
# So small that it takes seconds; nothing is learned.
SMALLER = {
    "demo_output/data-1/train.txt": "demo_output/data-1/dev.txt",
    "1200": "300",
    "--dupe_factor=10": "--dupe_factor=1",
    "--train_steps=3000": "--train_steps=4",
    "--num_warmup_steps=200": "--num_warmup_steps=1",
    "--save_checkpoints_steps=1000": "--save_checkpoints_steps=2",
    "--train_steps=500": "--train_steps=2",
    "--train_steps=100": "--train_steps=2",
    # The model of the demo needs no network.
    "sentence-transformers/all-MiniLM-L6-v2": "demo_output/run-1",
}
RUN = [block for block in BLOCKS if block.is_run()]
RESULTS = """
    demo_output/run-1-own/predictions.json out/embeddings.npz out/export/saved_model
    out/finetuned/predictions.json out/metrics.txt out/ner/run/test_predictions.jsonl
    out/new.csv out/rivers/run-v2/null_odds.json
    out/table/answered.csv out/tensorflow/model.ckpt.index out/predictions.html
    out/topics/run/predictions.html
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> pathlib.Path:
    """Returns a folder with links to the programs, like a fresh clone."""
    folder = tmp_path_factory.mktemp("project")
    for path in ROOT.iterdir():
        if path.name not in ("out", "data", "logs", "demo_output"):
            (folder / path.name).symlink_to(path)
    return folder


@pytest.fixture(scope="module")
def demo(folder) -> list[str]:
    """Returns the commands that `make demo` names, after a run of the last one."""
    shown = run_small(folder, "python -m tests.readme.small_demo")
    commands = re.findall(r"^# .*\n((?:.*\\\n)*.*)$", shown, re.MULTILINE)
    run_small(folder, commands[-1])
    return commands


def run_small(folder: pathlib.Path, text: str) -> str:
    """Runs shell text with small numbers; returns its output."""
    for number, smaller in SMALLER.items():
        text = text.replace(number, smaller)
    return run_in(folder, text)


def test_the_demo_names_commands_that_work(demo: list[str], folder: pathlib.Path):
    ask, serve, _ = demo
    assert "What is the height of Tamar?" in run_small(folder, ask)
    # It runs until it is stopped; the page about serving has the command too.
    assert serve.endswith("serve demo_output/run-1")


@pytest.mark.usefixtures("demo")
def test_the_pages_run(folder: pathlib.Path):
    """In their order: later pages use what earlier ones leave."""
    text = "".join(block.text for block in RUN)
    assert [number for number in SMALLER if number not in text] == []
    for block in RUN:
        run_small(folder, block.text)
    assert [result for result in RESULTS.split() if not (folder / result).exists()] == []
