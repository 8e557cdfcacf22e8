"""Every shell script of the repository, under shellcheck."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tests.helpers.forking import ROOT
from tests.helpers.running import run

SCRIPTS = sorted(
    str(path.relative_to(ROOT))
    for path in (ROOT / ".ci" / "run", *ROOT.glob("*/**/*.sh"), *ROOT.glob("*/**/*.sbatch"))
    if not path.relative_to(ROOT).parts[0].startswith(".venv")
)


@pytest.fixture(scope="module")
def shellcheck() -> str:
    """The program that requirements/dev.txt installs."""
    folder = Path(sys.executable).parent
    return (
        shutil.which("shellcheck", path=folder)
        or shutil.which("shellcheck")
        or pytest.skip("shellcheck is not installed: make install-dev")
    )


def test_the_scripts_are_found():
    known = {".ci/run", "deploy/mpirun.sh", "deploy/preset.sh", "deploy/slurm/squad.sbatch"}
    assert known <= set(SCRIPTS)


@pytest.mark.parametrize("script", SCRIPTS)
def test_shellcheck(shellcheck, script):
    result = run([shellcheck, script], cwd=ROOT)
    assert result.returncode == 0, result.stdout


def test_shellcheck_finds_a_fault(shellcheck, tmp_path):
    bad = tmp_path / "bad.sh"
    bad.write_text("#!/bin/bash\nrm -rf $1/*\n")
    assert run([shellcheck, str(bad)]).returncode == 1
