"""Behavior that all programs share as commands."""

import json
import os
import re
import signal
import subprocess
import sys

import pytest

from albert.cli import lifecycle
from albert.cli import main as cli_main
from albert.cli.main import COMMANDS
from albert.core.version import VERSION
from tests.helpers.forking import ROOT
from tests.helpers.running import albert, assert_fails, run, under_mpirun
from tests.helpers.squad import make_squad


def test_the_installation_is_checked_before_any_command(monkeypatch):
    monkeypatch.setattr(cli_main.installation, "check", lambda: sys.exit("damaged"))
    monkeypatch.setattr(sys, "argv", ["albert", "--version"])
    for start in (cli_main.main, lambda: cli_main.run_program("squad")):
        with pytest.raises(SystemExit, match="^damaged$"):
            start()


def test_help_explains_every_flag():
    text = run(albert("check", "classify", "--helpfull")).stdout
    shown = re.findall(r"^  --(?:\[no\])?(\w+):", text, re.MULTILINE)
    assert {"output_dir", "task_name", "bf16", "json", "tpu_name"} <= {*shown}
    assert "verbosity" not in shown and "albert check COMMAND" in text


# Runs commands, each in a separate process; prints for each its exit code, the number of its lines
# and of its large modules, and its first line.
EACH_BY_ITSELF = """
import atexit, os, sys
from albert.cli.main import main
for words in sys.argv[1:]:
    reader, writer = os.pipe()
    if not os.fork():
        os.dup2(writer, 1)
        atexit.register(lambda: print("modules", *sys.modules, flush=True))
        sys.argv = ["albert", *words.split()]
        main()
        sys.exit()
    os.close(writer)
    *lines, modules = os.fdopen(reader).read().splitlines()
    code = os.waitstatus_to_exitcode(os.wait()[1])
    heavy = {"tensorflow", "numpy", "tqdm"} & {*modules.split()}
    print(code, len(lines), len(heavy), lines[:1], flush=True)
"""


def test_help_and_flag_errors_need_no_tensorflow():
    """Nor NumPy: their imports take many times as long as everything else."""
    names = [*COMMANDS, "squad 2.0", "check race"]
    commands = [f"{name} {flag}" for name in names for flag in ("--help", "--version", "--onyl")]
    commands.append("download squad --help")
    result = run([sys.executable, "-c", EACH_BY_ITSELF, *commands], cwd=ROOT)
    rows = [line.split(maxsplit=3) for line in result.stdout.splitlines()]
    assert len(rows) == len(commands), result.stderr
    for words, (code, lines, heavy, first) in zip(commands[:-1], rows[:-1], strict=True):
        assert (code, heavy) == ("2" if "onyl" in words else "0", "0"), words
        assert int(lines) <= 60, words
        if "version" in words:
            assert first == f"['albert {words.split()[0]} {VERSION}']"


ON_FILES = """
import importlib, sys
from albert.cli.command_line import request_of
module = importlib.import_module(f"albert.cli.{sys.argv[1].replace('-', '_')}")
module.main(request_of(module, sys.argv[1:]))
print("tensorflow" in sys.modules)
"""


@pytest.mark.parametrize(
    "command",
    [
        "data check dev.json",
        "evaluate answers.json --data=dev.json",
        "show --predictions=answers.json --data=dev.json",
        "pretraining-text --input=text --output_dir=out",
    ],
)
def test_commands_on_files_need_no_tensorflow(tmp_path, command):
    """It takes seconds to import, and these commands take a fraction of one."""
    (tmp_path / "dev.json").write_text(json.dumps(make_squad(1, 1)))
    (tmp_path / "answers.json").write_text('{"1-0-0-0": ""}')
    (tmp_path / "text").mkdir()
    (tmp_path / "text/a.txt").write_text("One sentence. And another one.\n")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = run([sys.executable, "-c", ON_FILES, *command.split()], cwd=tmp_path, env=environment)
    assert result.stdout.splitlines()[-1] == "False", result.stderr


def test_a_mistyped_command_or_flag_gets_a_suggestion():
    assert_fails(run(albert("sqad")), 2, "'sqad' is not a command; did you mean squad?")
    assert "max_qa_length" not in run(albert("squad", "--max_qa_lenght=9")).stderr


@pytest.mark.slow
def test_help_into_a_closed_pipe_ends_quietly():
    command = 'set -o pipefail; "$@" --help | true'
    result = run(["bash", "-c", command, "bash", sys.executable, f"{ROOT}/run_squad_v1.py"])
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.usefixtures("mpirun")
@pytest.mark.parametrize("program", ["run_squad_v1.py", "-m albert squad"])
def test_a_signal_ends_a_job_that_still_imports_tensorflow(tmp_path, program):
    """The import takes seconds, in which nothing else would end the workers."""
    (tmp_path / "tensorflow").mkdir()
    text = "import time; print('importing', flush=True); time.sleep(600)"
    (tmp_path / "tensorflow/__init__.py").write_text(text)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = under_mpirun(2, [sys.executable, *program.split(), "--use_horovod"])
    pipes = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, cwd=ROOT, env=environment, text=True, **pipes) as job:
        assert [job.stdout.readline() for _ in range(2)] == ["importing\n"] * 2
        # mpirun passes this signal on to all workers.
        job.send_signal(signal.SIGUSR1)
        _, errors = job.communicate(timeout=60)
    assert job.returncode == 143
    assert "stopped by SIGUSR1; the same command resumes" in errors


@pytest.mark.parametrize("closed", ["2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_output_to_closed_streams_is_lost(tmp_path, closed):
    """A file that is opened later does not get a stream's number."""
    program = (
        "from albert import cli; import os, sys; print('lost'); print('lost', file=sys.stderr); "
        "os.write(2, b'lost'); open(sys.argv[1], 'w').write('kept')"
    )
    command = f'"$0" -c "$1" {tmp_path}/file {closed}'
    result = subprocess.run(["bash", "-c", command, sys.executable, program], cwd=ROOT)
    assert (result.returncode, (tmp_path / "file").read_text()) == (0, "kept")


@pytest.mark.skipif(not str(ROOT).isascii(), reason="Python itself does not start here then")
def test_a_name_outside_the_locale_is_one_line(tmp_path):
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0"}
    command = [sys.executable, str(ROOT / "run_squad_v1.py"), f"--output_dir={tmp_path}/é"]
    result = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
    assert "error: --output_dir=" in result.stderr and "PYTHONUTF8=1" in result.stderr


def test_an_undecodable_name_from_a_folder_is_one_line():
    message, code = lifecycle._failure_of(
        lambda argv: os.fsdecode(b"text/\xff").encode(), ["program"]
    )
    assert code == 1 and message.startswith(r"'text/\udcff' is not UTF-8 text")
