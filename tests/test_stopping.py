"""Signals to whole runs, and workers that hang; that runs resume to the byte: tests/faults."""

from __future__ import annotations

import re
import signal

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.running import at_step, error_line, processes_of, run, under_mpirun
from tests.helpers.squad import squad_command

FLAGS = (
    *("--train_steps=50", "--save_checkpoints_steps=5", "--do_predict=False", "--from_scratch"),
    "--remove_padding=false",
)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_training_ends_after_its_step(squad_dir, tmp_path, request, number):
    """Alone by the first; of two workers, of which one gets the second, both do."""
    command = squad_command(squad_dir, tmp_path, *FLAGS)
    if number == signal.SIGTERM:
        request.getfixturevalue("mpirun")
        command.append("--use_horovod=true")
        result = run(under_mpirun(2, at_step(number.name, 7, command, rank=1)))
    else:
        result = run(at_step(number.name, 7, command))
    assert result.returncode == 128 + number
    assert "Traceback" not in result.stderr
    line = (
        rf"run_squad_v1.py: stopped by {number.name} at step ([78]) of 50, which is saved; the same"
    )
    (step,) = re.findall(line, result.stderr)
    # What the line says is there: one checkpoint to resume from, the newest of all.
    assert tf.train.latest_checkpoint(str(tmp_path)) == str(tmp_path / f"resume.ckpt-{step}")
    assert len(list(tmp_path.glob("resume.ckpt-*.index"))) == 1
    assert not list(tmp_path.glob(".saving*"))
    assert not processes_of(tmp_path), "workers are left behind"


@pytest.mark.usefixtures("mpirun")
def test_a_worker_that_hangs_is_named(squad_dir, tmp_path):
    command = squad_command(squad_dir, tmp_path, *FLAGS, "--use_horovod=true", "--stall_seconds=5")
    result = run(under_mpirun(2, at_step("SIGSTOP", 7, command, rank=1)))
    assert result.returncode == 1
    assert re.search(r"rank 1 on \S+ has not answered for \d+ s", error_line(result))
    assert not processes_of(tmp_path), "workers are left behind"
