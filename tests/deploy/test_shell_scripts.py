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


def test_shellcheck(shellcheck, tmp_path):
    known = {".ci/run", "deploy/mpirun.sh", "deploy/preset.sh", "deploy/slurm/squad.sbatch"}
    assert known <= set(SCRIPTS)
    result = run([shellcheck, *SCRIPTS], cwd=ROOT)
    assert result.returncode == 0, result.stdout
    (tmp_path / "bad.sh").write_text("#!/bin/bash\nrm -rf $1/*\n")
    assert run([shellcheck, str(tmp_path / "bad.sh")]).returncode == 1
