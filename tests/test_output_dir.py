"""What programs make of --output_dir before they work in it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from runtime import locks
from tests.helpers.forking import ROOT
from tests.helpers.running import run
from tests.helpers.squad import squad_command


@pytest.fixture
def nothing_to_score(squad_dir, tmp_path) -> list[str]:
    """The command of a run that takes its folder and then finds no checkpoint in it."""
    return squad_command(squad_dir, tmp_path, "--do_train=false", "--preprocess_workers=2")


def test_a_run_waits_for_the_one_that_has_its_folder(nothing_to_score, tmp_path):
    locks.hold(str(tmp_path / "run"), "--output_dir")
    process = subprocess.Popen(nothing_to_score, stderr=subprocess.PIPE, text=True)
    try:
        waiting = next(line for line in process.stderr if "is in use" in line)
    finally:
        locks.release_held()
    assert f"--output_dir {tmp_path} is in use by process {os.getpid()} on " in waiting
    assert "no checkpoint to score" in process.communicate()[1]
    assert process.returncode == 1
    assert "run.lock" not in os.listdir(tmp_path)


@pytest.mark.parametrize("flag", ["output_dir", "init_checkpoint", "export_dir"])
@pytest.mark.parametrize("name", ["a[1]", "a*", "a?", "a\\b"])
def test_a_path_that_tensorflow_takes_for_a_pattern(squad_dir, tmp_path, flag, name):
    result = run(squad_command(squad_dir, tmp_path / "out", f"--{flag}={tmp_path / name}"))
    assert result.returncode == 2
    (line,) = (line for line in result.stderr.splitlines() if "error" in line)
    assert f"--{flag} {tmp_path / name}: TensorFlow takes a path with" in line
    assert "a symbolic link" in line
    assert os.listdir(tmp_path) == []


def test_check_setup_finds_it_too(squad_dir, tmp_path):
    _, _, *flags = squad_command(squad_dir, tmp_path / "a[1]")
    result = run([sys.executable, str(ROOT / "check_setup.py"), "run_squad_v1.py", *flags])
    assert result.returncode == 1
    assert f"--output_dir {tmp_path / 'a[1]'}: TensorFlow takes a path with [" in result.stdout


def test_a_link_to_such_a_folder(nothing_to_score, tmp_path):
    """The way out, and names that are none of a pattern."""
    (tmp_path / "a[1]").mkdir()
    (tmp_path / "a]{b}").symlink_to(tmp_path / "a[1]")
    result = run([*nothing_to_score, f"--output_dir={tmp_path / 'a]{b}'}"])
    assert result.returncode == 1 and "no checkpoint to score" in result.stderr
    assert "eval.tf_record" in os.listdir(tmp_path / "a[1]")
