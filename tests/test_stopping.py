"""What ends whole runs: signals, workers that hang, scores that get no better.

That runs resume to the byte: tests/faults.
"""

from __future__ import annotations

import json
import pathlib
import re
import signal
import subprocess

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.running import (
    at_step,
    error_line,
    processes_of,
    run,
    succeed,
    under_mpirun,
)
from tests.helpers.squad import squad_command

FLAGS = (
    *("--train_steps=50", "--save_checkpoints_steps=5", "--do_predict=False", "--from_scratch"),
    "--remove_padding=false",
)


def check_stopped(result: subprocess.CompletedProcess, number: int, folder: pathlib.Path) -> None:
    """A training ends by a signal after its step; what it says is there."""
    assert result.returncode == 128 + number
    assert "Traceback" not in result.stderr
    name = signal.Signals(number).name
    line = rf"run_squad_v1.py: stopped by {name} at step (\d+) of \d+, which is saved; the same"
    (step,) = re.findall(line, result.stderr)
    # One checkpoint to resume from, the newest of all.
    assert tf.train.latest_checkpoint(str(folder)) == str(folder / f"resume.ckpt-{step}")
    assert len(list(folder.glob("resume.ckpt-*.index"))) == 1
    assert not list(folder.glob(".saving*"))
    assert not processes_of(folder), "workers are left behind"


@pytest.mark.usefixtures("mpirun")
def test_workers_end_together_by_a_signal_that_one_gets(squad_dir, tmp_path):
    command = squad_command(squad_dir, tmp_path, *FLAGS, "--use_horovod=true")
    result = run(under_mpirun(2, at_step("SIGTERM", 7, command, rank=1)))
    check_stopped(result, signal.SIGTERM, tmp_path)
    assert "\x1b" not in result.stdout + result.stderr, "colours, in a log that is no terminal's"


@pytest.mark.usefixtures("mpirun")
def test_a_worker_that_hangs_is_named(squad_dir, tmp_path):
    command = squad_command(squad_dir, tmp_path, *FLAGS, "--use_horovod=true", "--stall_seconds=5")
    result = run(under_mpirun(2, at_step("SIGSTOP", 7, command, rank=1)))
    assert result.returncode == 1
    assert re.search(r"rank 1 on \S+ has not answered for \d+ s", error_line(result))
    assert not processes_of(tmp_path), "workers are left behind"


def checkpoints(folder: pathlib.Path) -> set[str]:
    return {path.stem for path in folder.glob("model.ckpt-*.index")}


def scores(folder: pathlib.Path) -> list[dict]:
    return json.loads((folder / "eval_results.json").read_text())["history"]


def test_a_run_without_patience_left_ends_however_often_it_is_stopped(squad_dir, tmp_path):
    """At this rate no score is better than the first. At step 3 nothing has been scored; at step 15
    the checkpoint is there and has no scores yet, or it is not there."""
    flags = "--learning_rate=0", "--patience=2", "--num_train_epochs=10", "--remove_padding=false"
    command = squad_command(squad_dir, tmp_path, *flags)
    check_stopped(run(at_step("SIGINT", 3, command)), signal.SIGINT, tmp_path)
    assert (tmp_path / "resume.ckpt-3.index").exists()
    assert run(at_step("kill", 15, command)).returncode == -signal.SIGKILL
    ending = "No better score in 2 checkpoints: the training ends here"
    assert ending in succeed(command)
    expected = {"model.ckpt-best", *(f"model.ckpt-{step}" for step in (5, 10, 15))}
    assert checkpoints(tmp_path) == expected
    assert [entry["global_step"] for entry in scores(tmp_path)] == [5, 10, 15]
    assert len({entry["f1"] for entry in scores(tmp_path)}) == 1
    again = succeed(command)
    assert ending in again and "Training from" not in again
    assert checkpoints(tmp_path) == expected
