"""The README's commands that need neither network, card nor downloaded model, run as they stand.

  .venv/bin/python -m pytest tests/readme/walk_through.py     (a minute; not part of `make test`)

Numbers that take minutes are replaced by small ones. What cannot be run, and why, is listed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tests.conftest import ROOT

# What a block is known by, and why it is not run.
NOT_RUN = {
    "make demo": "CI runs it, and what it consists of, itself",
    "make install ": "downloads",
    "albert_base_v2/model.ckpt-best": "needs a downloaded model",
    "FLAGS-OF-THE-JOB": "stands for any job",
    "compare_devices.py --device=hpu": "needs a card",
    "run_squad_v1.py ...": "stands for any job",
}
# Of the blocks that are run: so small that it takes seconds, and nothing is learned.
SMALLER = {
    "sample.generate": "sample.generate --train_articles=20 --dev_articles=2",
    "1200": "300",
    "--dupe_factor=10": "--dupe_factor=1",
    "--num_train_steps=3000": "--num_train_steps=4",
    "--num_warmup_steps=200": "--num_warmup_steps=1",
    "--save_checkpoints_steps=1000": "--save_checkpoints_steps=2",
    "--train_steps=500": "--train_steps=2",
}


def blocks() -> list[str]:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.findall(r"^ *```bash\n(.*?)^ *```", text, flags=re.DOTALL | re.MULTILINE)
    return [b for b in found if not any(mark in b for mark in NOT_RUN)]


def test_reasons_are_of_blocks_that_are_there():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [mark for mark in NOT_RUN if mark not in text] == []
    assert blocks()


@pytest.mark.parametrize("block", blocks(), ids=lambda block: block.split("--")[0].strip())
def test_runs(block, tmp_path):
    """In a folder of its own, beside the programs."""
    for path in ROOT.iterdir():
        if path.name not in ("out", "data", "logs"):
            (tmp_path / path.name).symlink_to(path)
    assert all(number in block for number in SMALLER)
    for number, smaller in SMALLER.items():
        block = block.replace(number, smaller)
    result = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block],
        cwd=tmp_path,
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=1500,
    )
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "out" / "finetuned" / "predictions.json").exists()
