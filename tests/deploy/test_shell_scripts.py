"""Every shell script of the repository, under shellcheck."""

from __future__ import annotations

import os
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


# What requirements/dev.txt installs, or the system has.
PATH = f"{Path(sys.executable).parent}:{os.environ['PATH']}"


@pytest.mark.skipif(not shutil.which("shellcheck", path=PATH), reason="make install-dev has it")
def test_shellcheck():
    known = {".ci/run", "deploy/mpirun.sh", "deploy/preset.sh", "deploy/slurm/squad.sbatch"}
    assert known <= set(SCRIPTS)
    result = run([shutil.which("shellcheck", path=PATH), *SCRIPTS], cwd=ROOT)
    assert result.returncode == 0, result.stdout
