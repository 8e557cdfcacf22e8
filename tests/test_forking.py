"""Programs that run in a fork of a process with TensorFlow: `tests.helpers.running.run`."""

from __future__ import annotations

import pytest

from runtime.version import VERSION
from tests.helpers.forking import ROOT, ForkingProcess
from tests.helpers.running import run_text


def test_the_end_of_a_program_is_pythons(tmp_path):
    for given, code, errors in (
        ("", 0, ""),
        ("3", 3, ""),
        ("'what is wrong'", 1, "what is wrong\n"),
        ("''", 1, "\n"),
        ("['a', 'list']", 1, "['a', 'list']\n"),
    ):
        result = run_text(tmp_path, f"import sys\nprint('output')\nsys.exit({given})\n")
        assert (result.returncode, result.stdout, result.stderr) == (code, "output\n", errors)


def test_a_server_that_has_died_says_so():
    process = ForkingProcess()
    process._process.kill()
    process._process.wait()
    with pytest.raises(RuntimeError, match="the process that forks has ended, exit code -9"):
        process.run(["program.py"])


# In the process that forks, other programs' modules are there.
AS_A_PYTHON_OF_ITS_OWN = """
import pathlib, runpy, sys
_, program = sys.argv
ours = {path.stem for path in pathlib.Path(program).parent.iterdir()}
for name in [*sys.modules]:
    if name.split(".")[0] in ours:
        del sys.modules[name]
sys.argv = [program, "--version"]
runpy.run_path(program, run_name="__main__")
"""


@pytest.mark.parametrize(
    "name", [path.name for path in ROOT.glob("*.py") if "__main__" in path.read_text()]
)
def test_a_program_imports_what_it_needs(tmp_path, name):
    result = run_text(tmp_path, AS_A_PYTHON_OF_ITS_OWN, str(ROOT / name))
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == f"{name} {VERSION}\n"
