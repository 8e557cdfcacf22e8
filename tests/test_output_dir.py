"""What programs make of --output_dir before they work in it."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from runtime import locks
from runtime.errors import FlagError
from tests.helpers.forking import ROOT
from tests.helpers.running import run
from tests.helpers.squad import squad_command


def test_a_run_waits_for_the_one_that_has_its_folder(squad_dir, tmp_path):
    locks.hold(str(tmp_path / "run"), "--output_dir")
    command = squad_command(squad_dir, tmp_path, "--do_train=false", "--preprocess_workers=2")
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        waiting = next(line for line in process.stderr if "is in use" in line)
    finally:
        locks.release_held()
    assert f"--output_dir {tmp_path} is in use by process {os.getpid()} on " in waiting
    said = process.communicate()[1]
    assert f"{tmp_path} has no checkpoint to score" in said and "--init_checkpoint" in said
    assert process.returncode == 1
    assert "run.lock" not in os.listdir(tmp_path)


@pytest.mark.parametrize("flag", ["output_dir", "init_checkpoint", "export_dir"])
def test_a_path_that_tensorflow_takes_for_a_pattern(prepare, squad_dir, tmp_path, flag):
    for name in ("a[1]", "a*", "a?", "a\\b"):
        message = f"--{flag} {tmp_path / name}: TensorFlow takes a path with"
        with pytest.raises(FlagError, match=f"{re.escape(message)} .* a symbolic link"):
            prepare(squad_command(squad_dir, tmp_path / "out", f"--{flag}={tmp_path / name}"))
        assert os.listdir(tmp_path) == []


def test_check_setup_finds_it_too(squad_dir, tmp_path):
    _, _, *flags = squad_command(squad_dir, tmp_path / "a[1]")
    result = run([sys.executable, str(ROOT / "check_setup.py"), "run_squad_v1.py", *flags])
    assert result.returncode == 1
    assert f"--output_dir {tmp_path / 'a[1]'}: TensorFlow takes a path with [" in result.stdout


def test_a_link_to_such_a_folder(prepare, squad_dir, tmp_path):
    """The way out, and names that are none of a pattern."""
    (tmp_path / "a[1]").mkdir()
    (tmp_path / "a]{b}").symlink_to(tmp_path / "a[1]")
    prepare(squad_command(squad_dir, tmp_path / "a]{b}", "--do_train=false"))
    assert "eval.tf_record" in os.listdir(tmp_path / "a[1]")
