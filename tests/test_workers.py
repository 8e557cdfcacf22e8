"""Whole runs with several workers under a real mpirun, and what happens when one of them fails."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shlex
import shutil
import sys
import time

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.checkpoints import losses, weights
from tests.helpers.forking import ROOT
from tests.helpers.running import MPIRUN, at_step, run, run_as_workers, under_mpirun
from tests.helpers.squad import make_squad, squad_command

pytestmark = pytest.mark.usefixtures("mpirun")
LIMIT = 60  # seconds in which a job whose worker fails is to end


def worker(squad_dir: pathlib.Path, output_dir: pathlib.Path, *flags: str) -> list[str]:
    """The command of a worker."""
    return squad_command(squad_dir, output_dir, "--use_horovod=true", *flags)


def job(workers: int, squad_dir: pathlib.Path, output_dir: pathlib.Path, *flags: str) -> list[str]:
    return under_mpirun(workers, worker(squad_dir, output_dir, *flags))


@pytest.mark.each_python
class TestEqualResults:
    @pytest.fixture(scope="class")
    def golden(self, shared, tmp_path_factory):
        """Flags of the golden steps: the folder, and a checkpoint with the head's first weights."""
        folder = shared / "golden" / "albert_tiny"
        reader = tf.train.load_checkpoint(str(folder / "model.ckpt-best"))
        prefix = tmp_path_factory.mktemp("golden") / "model.ckpt"
        with tf.Graph().as_default(), tf.Session() as session:
            for name in reader.get_variable_to_shape_map():
                if name.startswith("bert/"):
                    tf.get_variable(name, initializer=reader.get_tensor(name))
            curve = np.load(folder / "squad_v1_adamw.npz")
            tf.get_variable("cls/squad/output_weights", initializer=curve["output_weights"])
            session.run(tf.global_variables_initializer())
            tf.train.Saver().save(session, str(prefix))
        return [f"--golden={folder}", f"--init_checkpoint={prefix}"], curve["losses"]

    def steps(self, golden, folder, workers, *flags):
        """The losses and final weights of the golden steps."""
        program = [sys.executable, str(ROOT / "tests/programs/golden_steps.py")]
        command = [*program, *golden[0], f"--output_dir={folder}", *flags]
        result = run_as_workers(workers, command) if workers > 1 else run(command)
        assert result.returncode == 0, result.stderr
        return losses(folder), weights(folder, "model.ckpt-20")

    @pytest.fixture(scope="class")
    def alone(self, golden, tmp_path_factory):
        """One worker, batches of 8."""
        return self.steps(golden, tmp_path_factory.mktemp("alone"), 1, "--batch_size=8")

    def test_one_worker_has_the_golden_losses(self, golden, alone):
        np.testing.assert_allclose(alone[0], golden[1], rtol=0, atol=1e-5)

    @pytest.mark.parametrize(
        ("workers", "batch_size", "accumulation", "more"),
        [(2, 4, 1, []), (1, 4, 2, []), (2, 2, 2, ["--checkpointing"])],
    )
    def test_the_same_batch_cut_in_parts(
        self, golden, alone, tmp_path, workers, batch_size, accumulation, more
    ):
        flags = [f"--batch_size={batch_size}", f"--accumulation={accumulation}", *more]
        result = self.steps(golden, tmp_path, workers, *flags)
        np.testing.assert_allclose(result[0], alone[0], rtol=0, atol=1e-5)
        assert result[1].keys() == alone[1].keys(), "sums of gradients belong to no checkpoint"
        for name, value in alone[1].items():
            # The loss does not depend on this bias: its gradients are rounding, which Adam scales
            # up to whole steps.
            if name != "cls/squad/output_bias":
                np.testing.assert_allclose(result[1][name], value, rtol=0, atol=1e-5, err_msg=name)

    def test_float16_on_the_wire(self, golden, alone, tmp_path):
        flags = ["--batch_size=4", "--wire=float16"]
        result = self.steps(golden, tmp_path, 2, *flags)
        assert not np.array_equal(result[0], alone[0])
        np.testing.assert_allclose(result[0], alone[0], rtol=0, atol=5e-3)


class TestWholeRun:
    FLAGS = ("--train_batch_size=2", "--gradient_accumulation_steps=2", "--scale_learning_rate")

    @pytest.fixture(scope="class")
    def by_two(self, squad_dir, tmp_path_factory):
        """A folder that two workers filled, and what they said; three batches a worker and step."""
        folder = tmp_path_factory.mktemp("two")
        result = run_as_workers(2, worker(squad_dir, folder, *self.FLAGS))
        assert result.returncode == 0, result.stderr
        return folder, result

    @pytest.mark.each_python
    def test_one_worker_writes(self, by_two, trained):
        folder, result = by_two
        names = {re.sub(r"tfevents.*", "tfevents", name) for name in os.listdir(folder)}
        assert names == {re.sub(r"tfevents.*", "tfevents", n) for n in os.listdir(trained)}
        assert len(list(folder.glob("events*"))) == 1
        assert "2 workers" in result.stderr
        assert "global batch size 8" in result.stderr
        assert result.stderr.count("Training statistics") == 1

    def test_steps_follow_the_global_batch(self, by_two, trained):
        assert weights(by_two[0])["global_step"] == 48 * 2 // 8
        assert weights(by_two[0]).keys() == weights(trained).keys()

    @pytest.mark.each_python
    def test_predictions_have_the_bytes_of_one_worker(self, by_two, squad_dir, tmp_path):
        folder, _ = by_two
        checkpoint = f"--init_checkpoint={folder / 'model.ckpt-best'}"
        for workers in (1, 3):
            out = tmp_path / str(workers)
            alone = squad_command(squad_dir, out, "--do_train=False", checkpoint)
            if workers == 1:
                result = run(alone)
            else:
                result = run_as_workers(workers, [*alone, "--use_horovod=true"])
            assert result.returncode == 0, result.stderr
            for name in ("predictions.json", "nbest_predictions.json"):
                assert (out / name).read_bytes() == (folder / name).read_bytes(), (workers, name)

    def test_more_workers_than_batches(self, by_two, squad_dir, tmp_path):
        folder, _ = by_two
        flags = [
            "--do_train=False",
            f"--init_checkpoint={folder / 'model.ckpt-best'}",
            "--predict_batch_size=100",
        ]
        result = run_as_workers(3, worker(squad_dir, tmp_path, *flags))
        assert result.returncode == 0, result.stderr
        predictions = json.loads((tmp_path / "predictions.json").read_text())
        assert predictions == json.loads((folder / "predictions.json").read_text())

    def test_the_same_command_ends_at_once(self, by_two, squad_dir, tmp_path):
        folder = tmp_path / "out"
        shutil.copytree(by_two[0], folder)
        result = run_as_workers(2, worker(squad_dir, folder, *self.FLAGS))
        assert result.returncode == 0, result.stderr
        assert "Training is done already" in result.stderr
        assert "All 3 checkpoints are scored already" in result.stderr

    def test_another_number_of_workers_is_another_run(self, by_two, squad_dir):
        result = run(squad_command(squad_dir, by_two[0], *self.FLAGS))
        assert result.returncode == 2
        assert "number of workers (was 2, is 1)" in result.stderr

    def test_the_forks_way_to_start_it(self, squad_dir, tmp_path):
        """The mpirun of the Habana README and its shell; two workers, the cores there are."""
        flags = ["--use_horovod=true", "--enable_scoped_allocator=True", "--train_steps=2"]
        command = squad_command(squad_dir, tmp_path, *flags)
        command = ["bash", "-c", f"cd {tmp_path}; {shlex.join(command)}"]
        start = [MPIRUN, "--allow-run-as-root", "--bind-to", "core", "--map-by", "socket:PE=1"]
        start += ["-np", "2", "--tag-output", "--merge-stderr-to-stdout"]
        result = run([*map(str, start), *command])
        output = result.stdout + result.stderr
        assert result.returncode == 0, output
        assert re.search(r"^\[1,0\]<stderr>:.*INFO   f1 ", output, re.MULTILINE)
        assert "\33" not in output, "mpirun gives a worker a terminal as its output"
        assert "--enable_scoped_allocator has no effect" in output
        assert (tmp_path / "predictions.json").exists()

    def test_scaled_learning_rate(self, by_two):
        """Twice that of the command, 1e-3, of which a twelfth is left in the last of 12 steps."""
        _, result = by_two
        assert re.search(r"step 12/12 .* learning rate 0\.000167 ", result.stderr)

    def test_alone_without_mpirun(self, squad_dir, tmp_path):
        flags = ["--use_horovod=true", "--train_steps=2", "--do_predict=False"]
        result = run(squad_command(squad_dir, tmp_path, *flags))
        assert result.returncode == 0, result.stderr
        assert "without mpirun: this is the only worker" in result.stderr
        assert (tmp_path / "model.ckpt-2.index").exists()


def two_workers(*commands: list[str]) -> list[str]:
    """A job of two workers with a command each."""
    first, second = (" ".join(map(str, command)) for command in commands)
    script = f'if [ "$OMPI_COMM_WORLD_RANK" = 0 ]; then {first}; else {second}; fi'
    return under_mpirun(2, ["bash", "-c", script])


class TestFaults:
    """Of jobs with buckets, where each worker's batches depend on what a whole step is of."""

    STEPS = (
        *("--train_steps=100", "--save_checkpoints_steps=20", "--do_predict=False", "--seed=5"),
        "--length_buckets=32,40,48,64",
    )

    @pytest.fixture(scope="class")
    def whole(self, squad_dir, tmp_path_factory):
        """The folder of a job that nothing happened to."""
        folder = tmp_path_factory.mktemp("whole")
        result = run_as_workers(2, worker(squad_dir, folder, *self.STEPS))
        assert result.returncode == 0, result.stderr
        return folder

    def pids(self, command: list[str]) -> list[int]:
        """The processes of workers, by rank."""
        found = {}
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
                variables = (folder / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[: len(command)] == [word.encode() for word in command]:
                rank = next(v for v in variables if v.startswith(b"OMPI_COMM_WORLD_RANK="))
                found[int(rank.split(b"=")[1])] = int(folder.name)
        return [found[rank] for rank in sorted(found)]

    def end_of(self, squad_dir, folder, fault, rank) -> tuple[list[str], int, str]:
        """The command of a worker, exit code and output of a job of two workers, to one of which
        something happens at step 50."""
        command = squad_command(squad_dir, folder, "--use_horovod=true", *self.STEPS)
        broken = at_step(fault, 50, command, rank)
        result = run(under_mpirun(2, broken))
        seconds = time.time() - (folder / "model.ckpt-40.index").stat().st_mtime
        assert seconds < LIMIT
        assert not self.pids(broken), "workers are left behind"
        return command, result.returncode, result.stdout + result.stderr

    @pytest.mark.parametrize("rank", [0, 1])
    def test_a_killed_worker_ends_the_job_and_the_command_resumes(
        self, whole, squad_dir, tmp_path, rank
    ):
        command, code, _ = self.end_of(squad_dir, tmp_path, "kill", rank)
        assert code != 0
        result = run_as_workers(2, command)
        assert result.returncode == 0, result.stderr
        assert "Training from step 40 to 100" in result.stderr
        assert "--length_buckets: " in result.stderr
        expected, actual = weights(whole, "model.ckpt-100"), weights(tmp_path, "model.ckpt-100")
        for name, value in expected.items():
            np.testing.assert_array_equal(actual[name], value, err_msg=name)

    def test_a_worker_that_raises_ends_the_job(self, squad_dir, tmp_path):
        """The disk of rank 0 fills up, in that its checkpoint cannot be written any more."""
        _, code, output = self.end_of(squad_dir, tmp_path, "fill_disk", 0)
        assert code == 1
        said = r"error: rank 0 of 2 on \S+: .*cannot be written.*File too large"
        assert re.search(said, output), output
        assert "Traceback" not in output

    @pytest.mark.parametrize("rank", [0, 1])
    def test_a_worker_that_lacks_a_file_is_named(self, squad_dir, tmp_path, rank):
        """As on one host of several; the other worker waits for this one meanwhile."""
        good = squad_command(squad_dir, tmp_path, "--use_horovod=true", *self.STEPS)
        bad = [*good, f"--spm_model_file={tmp_path / 'missing.model'}"]
        started = time.time()
        result = run(two_workers(*((bad, good) if rank == 0 else (good, bad))))
        assert time.time() - started < LIMIT
        assert result.returncode == 1
        line = next(line for line in result.stderr.splitlines() if ": error: " in line)
        assert re.search(rf"error: rank {rank} of 2 on \S+: .*missing.model", line)
        assert "Traceback" not in result.stderr

    def test_a_worker_with_another_file_is_named(self, squad_dir, tmp_path):
        """As on a host without the shared volume, where an older copy lies."""
        good = squad_command(squad_dir, tmp_path / "out", "--use_horovod=true")
        (tmp_path / "old.json").write_text(json.dumps(make_squad(7, 2)))
        result = run(
            two_workers(
                good,
                [
                    *good,
                    f"--predict_file={tmp_path / 'old.json'}",
                    f"--predict_feature_file={tmp_path / 'old.tf_record'}",
                    f"--predict_feature_left_file={tmp_path / 'old.npz'}",
                ],
            )
        )
        assert result.returncode == 1
        assert re.search(r"rank 1 on \S+ differs from rank 0 on \S+ in dev features", result.stderr)
        assert not list((tmp_path / "out").glob("model.ckpt*"))

    def test_what_lies_in_the_folder_of_another_rank_does_not_matter(
        self, trained, squad_dir, tmp_path
    ):
        """There a run is finished already; rank 0 decides where training begins."""
        shutil.copytree(trained, tmp_path / "old")
        flags = ["--use_horovod=true", "--train_steps=3", "--do_predict=false"]
        here = squad_command(squad_dir, tmp_path / "out", *flags)
        result = run_as_workers(2, here, f"--output_dir={tmp_path / 'old'}")
        assert result.returncode == 0, result.stderr
        assert (tmp_path / "out" / "model.ckpt-3.index").exists()
        assert not (tmp_path / "old" / "model.ckpt-3.index").exists()

    def test_a_fault_of_all_is_said_once(self, squad_dir, tmp_path):
        result = run(job(2, squad_dir, tmp_path, "--learning_rate=fast"))
        assert result.returncode == 2
        assert result.stderr.count(": error: ") == 1

    def test_not_finite_is_said_once(self, squad_dir, tmp_path):
        flags = ["--learning_rate=1e20", "--save_checkpoints_steps=1"]
        result = run(job(2, squad_dir, tmp_path, *flags))
        assert result.returncode == 1
        (line,) = (line for line in result.stderr.splitlines() if ": error: " in line)
        assert "NaN or infinite at step" in line
        assert "Traceback" not in result.stderr

    def test_mpirun_without_use_horovod(self, squad_dir, tmp_path):
        """By the variables that it sets; tests/deploy does it with a real one."""
        names = {"RANK": "0", "SIZE": "2", "LOCAL_RANK": "0", "LOCAL_SIZE": "2"}
        launched = {f"OMPI_COMM_WORLD_{name}": value for name, value in names.items()}
        result = run(squad_command(squad_dir, tmp_path), env={**os.environ, **launched})
        assert result.returncode == 2
        assert "--use_horovod is off" in result.stderr
        assert not list(tmp_path.iterdir())


def test_without_horovod_installed(squad_dir, tmp_path):
    """One line that says how to install it, and nothing else is affected."""
    package = tmp_path / "path" / "horovod"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError(\"No module named 'horovod'\")")
    environment = {**os.environ, "PYTHONPATH": str(package.parent)}
    out, flags = tmp_path / "out", ["--train_steps=2", "--do_predict=False"]
    result = run(squad_command(squad_dir, out, "--use_horovod=true", *flags), env=environment)
    assert result.returncode == 1
    assert "needs Horovod" in result.stderr and "make horovod" in result.stderr
    assert "Traceback" not in result.stderr
    result = run(squad_command(squad_dir, out, *flags), env=environment)
    assert result.returncode == 0, result.stderr
