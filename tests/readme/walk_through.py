"""The pages' commands that need neither network, card nor downloaded model, run as they stand.

  .venv/bin/python -m pytest tests/readme/walk_through.py     (two minutes; not part of `make test`)

Numbers that take minutes are replaced by small ones. What is not run, and why, is in `pages.py`.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.readme.pages import BLOCKS, Block

# So small that it takes seconds, and nothing is learned.
SMALLER = {
    "sample.generate": "sample.generate --train_articles=20 --dev_articles=2",
    "1200": "300",
    "--dupe_factor=10": "--dupe_factor=1",
    "--num_train_steps=3000": "--num_train_steps=4",
    "--num_warmup_steps=200": "--num_warmup_steps=1",
    "--save_checkpoints_steps=1000": "--save_checkpoints_steps=2",
    "--train_steps=500": "--train_steps=2",
    "--train_step=20": "--train_step=2",
}
# The other pages use what pretraining makes.
RUN = sorted(
    (block for block in BLOCKS if block.is_run()),
    key=lambda block: block.page.name != "pretraining.md",
)
# Of pages with commands to run: what these leave.
RESULTS = {
    "pretraining.md": "out/finetuned/predictions.json",
    "asking.md": "out/river.txt",
    "glue.md": "out/own/run/submit_results.tsv",
    "serving.md": "out/metrics.txt",
    "squad.md": "out/export/saved_model",
    "weights.md": "out/tensorflow/model.ckpt.index",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> pathlib.Path:
    """A folder beside the programs, as a fresh clone has it."""
    folder = tmp_path_factory.mktemp("project")
    for path in ROOT.iterdir():
        if path.name not in ("out", "data", "logs"):
            (folder / path.name).symlink_to(path)
    return folder


def test_numbers_that_are_replaced_are_there():
    text = "".join(block.text for block in RUN)
    assert [number for number in SMALLER if number not in text] == []


@pytest.mark.parametrize("block", RUN, ids=lambda block: block.page.stem)
def test_runs(block: Block, folder: pathlib.Path):
    text = block.text
    for number, smaller in SMALLER.items():
        text = text.replace(number, smaller)
    result = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text],
        cwd=folder,
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=1500,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert (folder / RESULTS.get(block.page.name, "out")).exists()
