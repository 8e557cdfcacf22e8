"""Other systems, as far as Linux can show: without the names, modules and files that they lack."""

import json
import subprocess
import sys

import pytest

from tests.helpers.forking import ROOT
from tests.helpers.running import albert, run
from tests.helpers.squad import squad_command
from tools.rooms import sources

PROGRAMS = [path.name for path in ROOT.glob("*.py") if "run_program" in path.read_text()]


def on_system(system: str, command: list[str]) -> subprocess.CompletedProcess:
    python, *program = command
    return run([python, "-m", "tests.programs.on_system", system, *program], cwd=ROOT)


def on_macos(command: list[str]) -> tuple[str, str]:
    result = on_system("darwin", command)
    assert result.returncode == 0 and "Traceback" not in result.stderr, result.stderr
    return result.stdout, result.stderr


def test_every_module_is_imported_on_macos(tmp_path):
    names = [source.module.removesuffix(".__init__") for source in sources()]
    names = [name for name in names if f"{name.removeprefix('albert.')}.py" not in PROGRAMS]
    text = f"import importlib, sys\nsys.path.insert(0, {str(ROOT)!r})\n"
    text += f"for name in {names}:\n  importlib.import_module(name)\n"
    (tmp_path / "program.py").write_text(text + "print(len(sys.modules))")
    assert int(on_macos([sys.executable, str(tmp_path / "program.py")])[0]) > len(names) > 250


@pytest.mark.slow
def test_commands_for_the_cpu_run_on_macos(squad_dir, tmp_path):
    out = tmp_path / "out"
    log = on_macos([*squad_command(squad_dir, out, "--train_steps=2"), "--device=cpu"])[1]
    assert "peak host memory" in log
    assert len(json.loads((out / "predictions.json").read_text())) == 12
    question = ["--context=Tamar is a bridge.", "--question=What is Tamar?", "--json"]
    assert json.loads(on_macos(albert("ask", out, *question))[0])
    flags = squad_command(squad_dir, tmp_path / "new")[2:]
    assert json.loads(on_macos(albert("check", "squad", *flags, "--json"))[0])["ok"]
    (tmp_path / "a.txt").write_text("One house is red. \nTwo houses are blue.\n\n" * 20)
    flags = [f"--input_file={tmp_path}/a.txt", f"--spm_model_file={squad_dir}/spm.model"]
    flags += ["--max_seq_length=48", "--max_predictions_per_seq=6", "--dupe_factor=1"]
    # The workers, which are not the default there, are forked too.
    for more in ([], ["--preprocess_workers=2"]):
        files = f"--output_file={tmp_path}/records{len(more)}"
        on_macos(albert("pretraining-data", *flags, files, *more))
    assert (tmp_path / "records0").read_bytes() == (tmp_path / "records1").read_bytes()


@pytest.mark.parametrize("program", [*PROGRAMS, "albert", "download/download_dataset.py"])
def test_windows_is_one_error_line(program):
    words = ["squad", "--help"] if program == "albert" else ["--help"]
    result = on_system("win32", [sys.executable, str(ROOT / program), *words])
    (line,) = result.stderr.splitlines()
    assert line.endswith("in WSL, the Windows Subsystem for Linux") and result.returncode == 1
    assert ": error: Windows is not supported: " in line and result.stdout == ""
