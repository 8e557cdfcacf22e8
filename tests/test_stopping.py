"""Signals to whole runs, and workers that hang; that runs resume to the byte: tests/faults."""

from __future__ import annotations

import os
import pathlib
import re
import signal
import subprocess
import time

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.forking import LONGEST
from tests.helpers.running import under_mpirun
from tests.helpers.squad import squad_command

FLAGS = (
    "--train_steps=5000",
    "--save_checkpoints_steps=20",
    "--do_predict=False",
    "--from_scratch",
)


def training(command: list[str], folder: pathlib.Path) -> subprocess.Popen:
    """A job that has just saved its first checkpoint."""
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + LONGEST
    while not (folder / "model.ckpt-20.index").exists():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return process


def ranks(folder: pathlib.Path) -> dict[int, int]:
    """The processes of a job's workers by rank."""
    found = {}
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_text()
            environment = (process / "environ").read_text()
        except OSError:
            continue
        rank = re.search(r"\0OMPI_COMM_WORLD_RANK=(\d+)\0", environment)
        if rank and f"--output_dir={folder}\0" in command:
            found[int(rank.group(1))] = int(process.name)
    return found


def ended(process: subprocess.Popen) -> tuple[int, str]:
    """The exit code and what was printed besides the log."""
    error = process.communicate(timeout=LONGEST)[1]
    assert "Traceback" not in error
    return process.returncode, "".join(
        line for line in error.splitlines(keepends=True) if " INFO " not in line
    )


def assert_saved(folder: pathlib.Path, error: str, name: str) -> None:
    """What the line says is there: one checkpoint to resume from, the newest of all."""
    line = rf"run_squad_v1.py: stopped by {name} at step (\d+) of 5000, which is saved; the same"
    (step,) = re.findall(line, error)
    newest = tf.train.latest_checkpoint(str(folder))
    assert re.fullmatch(rf"(model|resume)\.ckpt-{step}", os.path.basename(newest))
    assert len(list(folder.glob("resume.ckpt-*.index"))) <= 1
    assert not list(folder.glob(".saving*"))


def test_a_training_ends_after_its_step(squad_dir, tmp_path):
    process = training(squad_command(squad_dir, tmp_path, *FLAGS), tmp_path)
    process.send_signal(signal.SIGINT)
    code, error = ended(process)
    # Newer TensorFlows say something of themselves.
    assert code == 130 and error.count("run_squad_v1.py: ") == 1
    assert_saved(tmp_path, error, "SIGINT")


@pytest.mark.usefixtures("mpirun")
class TestTwoWorkers:
    def job(self, squad_dir, folder, *flags):
        command = squad_command(squad_dir, folder, "--use_horovod=true", *FLAGS, *flags)
        return training(under_mpirun(2, command), folder)

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
    def test_a_signal_to_one_worker_stops_both(self, squad_dir, tmp_path, number):
        process = self.job(squad_dir, tmp_path)
        os.kill(ranks(tmp_path)[1], number)
        code, error = ended(process)
        assert code == 128 + number
        assert_saved(tmp_path, error, number.name)

    @pytest.mark.parametrize("rank", [0, 1])
    def test_a_worker_that_hangs_is_named(self, squad_dir, tmp_path, rank):
        process = self.job(squad_dir, tmp_path, "--stall_seconds=8")
        os.kill(ranks(tmp_path)[rank], signal.SIGSTOP)
        code, error = ended(process)
        assert code == 1
        (line,) = re.findall(".*: error: .*", error)
        assert re.search(rf"rank {rank} on \S+ has not answered for \d+ s", line)
