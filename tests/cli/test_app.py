"""What all programs have in common as commands."""

import os
import re
import subprocess
import sys

import pytest

from albert.cli import ending
from albert.core.version import VERSION
from tests.helpers.forking import ROOT
from tests.helpers.running import run


def test_help_explains_every_flag():
    """Those of a job too, and none of those that TensorFlow and absl bring along."""
    program = [sys.executable, str(ROOT / "check_setup.py")]
    result = run([*program, "run_classifier.py", "--help"])
    assert result.returncode == 0
    shown = re.findall(r"^  --(?:\[no\])?(\w+):", result.stdout, re.MULTILINE)
    assert {"output_dir", "task_name", "bf16", "json"} <= set(shown), result.stderr
    assert not set(shown) & {"verbosity", "logtostderr", "runs_per_test"}
    assert "python check_setup.py" in result.stdout
    # An example's lines go on with a backslash.
    assert not re.search(r"\S {3,}--", result.stdout)


# Runs programs with a flag that they do not have, each in a process of its own; prints for each
# its exit code and its modules. What all of them import is imported once.
WRONG_FLAGS = """
import atexit, os, runpy, sys
import albert.cli.app, albert.settings.flags
assert "tensorflow" not in sys.modules
for program in sys.argv[1:]:
    print(program, flush=True)
    child = os.fork()
    if not child:
        atexit.register(lambda: print(*sys.modules, flush=True))
        sys.argv = [program, "--onyl"]
        runpy.run_path(program, None, "__main__")
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def test_what_is_wrong_with_flags_is_said_without_tensorflow():
    """Whose import takes many times as long as all else; `--help` needs no more than this."""
    quick = "ask.py", "evaluate.py", "serve.py", "show_predictions.py"
    programs = [*(path.name for path in ROOT.glob("run_*.py")), *quick]
    result = run([sys.executable, "-c", WRONG_FLAGS, *programs], cwd=ROOT)
    lines = result.stdout.splitlines()
    assert lines[::3] == programs, result.stderr
    assert lines[2::3] == ["2"] * len(programs)
    assert result.stderr.count(": error: ") == len(programs)
    for modules in map(str.split, lines[1::3]):
        assert "albert.settings.flags" in modules and "tensorflow" not in modules


def test_help_that_nobody_reads_ends_quietly():
    """As under `| head -1`."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, str(ROOT / "run_squad_v1.py"), "--help"]
    with os.fdopen(writer, "w") as closed:
        result = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, text=True)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("closed", ["2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_empty_ones(tmp_path, closed):
    """A file that is opened later does not get the number of one."""
    program = (
        "from albert import cli; import os, sys; print('lost'); print('lost', file=sys.stderr); "
        "os.write(2, b'lost'); open(sys.argv[1], 'w').write('kept')"
    )
    command = f'"$0" -c "$1" {tmp_path}/file {closed}'
    result = subprocess.run(["bash", "-c", command, sys.executable, program], cwd=ROOT)
    assert (result.returncode, (tmp_path / "file").read_text()) == (0, "kept")


def test_a_name_that_the_locale_cannot_express(tmp_path):
    """Python then does not know what it is."""
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0"}
    command = [sys.executable, str(ROOT / "run_squad_v1.py"), f"--output_dir={tmp_path}/é"]
    result = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
    assert "error: --output_dir=" in result.stderr and "PYTHONUTF8=1" in result.stderr


def test_names_that_no_flag_has_given():
    """Those of a folder, for example, in which a glob has found them."""
    message, code = ending._failure_of(lambda argv: os.fsdecode(b"text/\xff").encode(), ["program"])
    assert code == 1 and message.startswith(r"'text/\udcff' is not UTF-8 text")


def test_version_of_what_downloads():
    """Of the other programs: `tests/test_flags.py`."""
    for path in (ROOT / "download").glob("download_*.py"):
        result = run([sys.executable, str(path), "--version"])
        assert (result.returncode, result.stdout) == (0, f"{path.name} {VERSION}\n"), result.stderr
