"""Whole runs with several workers, and the failure of one of them."""

import json
import os
import re
import shlex
import shutil
import signal

import numpy as np
import pytest

from tests.helpers.checkpoints import losses, weights
from tests.helpers.files import write_files
from tests.helpers.running import (
    MPIRUN,
    assert_fails,
    assert_stopped,
    at_step,
    error_line,
    processes_of,
    run,
    run_as_workers,
    succeed,
    under_mpirun,
)
from tests.helpers.squad import make_squad, squad_command

pytestmark = pytest.mark.usefixtures("mpirun")
# Without dropout, which differs between workers. With buckets, the batches of a worker depend on
# the records of the whole step.
FLAGS = (
    *("--use_horovod=true", "--train_batch_size=2", "--gradient_accumulation_steps=2"),
    *("--scale_learning_rate", "--deterministic_run", "--length_buckets=32,40,48,64"),
)


@pytest.fixture(scope="module")
def by_two(squad_dir, tmp_path_factory):
    """Returns a folder that two workers filled in steps of three batches each, and their log."""
    folder = tmp_path_factory.mktemp("two")
    result = run_as_workers(2, squad_command(squad_dir, folder, *FLAGS))
    assert result.returncode == 0, result.stderr
    return folder, result


@pytest.mark.each_python
def test_only_one_worker_writes(by_two, trained):
    """It writes the files of a single worker, in as many steps: they follow the global batch."""
    folder, result = by_two
    names, expected = (
        sorted(re.sub(r"tfevents.*", "tfevents", path.name) for path in each.iterdir())
        for each in (folder, trained)
    )
    assert names == expected
    assert weights(folder).keys() == weights(trained).keys()
    assert "2 workers" in result.stderr
    assert "global batch size 8" in result.stderr
    assert result.stderr.count("Trained 12 steps in ") == 1
    # Twice that of the command, 1e-3, of which a twelfth remains in the last of 12 steps.
    assert re.search(r"step 12/12 .* learning rate 0\.000167 ", result.stderr)


@pytest.mark.each_python
def test_two_workers_predict_the_bytes_of_one(by_two, squad_dir, tmp_path):
    """One needs no Horovod."""
    error = "raise ImportError(\"No module named 'horovod'\")"
    path = write_files(tmp_path / "path", {"horovod/__init__.py": error})
    checkpoint = f"--init_checkpoint={by_two[0] / 'model.ckpt-best'}"
    alone = squad_command(squad_dir, tmp_path, "--do_train=False", checkpoint)
    succeed(alone, env={**os.environ, "PYTHONPATH": path})
    for name in ("predictions.json", "nbest_predictions.json"):
        assert (tmp_path / name).read_bytes() == (by_two[0] / name).read_bytes()


def test_rank_0_decides_what_is_done(by_two, squad_dir, tmp_path):
    """The folder of the other rank, which may be on another host, has no run."""
    folder, other = tmp_path / "out", tmp_path / "other"
    shutil.copytree(by_two[0], folder)
    result = run_as_workers(2, squad_command(squad_dir, folder, *FLAGS), f"--output_dir={other}")
    assert result.returncode == 0, result.stderr
    assert "Training is already complete" in result.stderr
    assert "All 3 checkpoints already have scores" in result.stderr
    assert not list(other.glob("**/*ckpt*"))


def test_signaled_workers_end_together_and_others_resume(by_two, squad_dir, tmp_path):
    """Two that shard the optimizer, then one, which is killed, then two as in the fork."""

    def command(*flags: str) -> list[str]:
        return squad_command(squad_dir, tmp_path, *FLAGS, "--do_predict=False", *flags)

    job = at_step("SIGTERM", 6, command("--shard_optimizer=state"), rank=1)
    result = run(under_mpirun(2, job))
    step = assert_stopped(result, signal.SIGTERM, tmp_path)
    assert "\33" not in result.stdout + result.stderr, "colours, in a log that is no terminal's"
    alone = run(at_step("kill", 11, command("--elastic_resume")))
    assert "without mpirun: this is the only worker" in alone.stderr
    assert f"Training from step {step} to 12" in alone.stderr
    assert "global batch size 8" in alone.stderr
    again = command("--shard_optimizer=gradients", "--enable_scoped_allocator=True")
    start = [str(MPIRUN), "--allow-run-as-root", "--bind-to", "core", "--map-by", "socket:PE=1"]
    start += ["-np", "2", "--tag-output", "--merge-stderr-to-stdout"]
    result = run([*start, "bash", "-c", f"cd {tmp_path}; {shlex.join(again)}"])
    output = result.stdout + result.stderr
    assert result.returncode == 0, output
    assert re.search(r"^\[1,0\]<stderr>:.* Training from step 10 to 12", output, re.MULTILINE)
    assert "\33" not in output, "mpirun gives a worker a terminal as its output"
    assert "--enable_scoped_allocator has no effect" in output
    np.testing.assert_allclose(losses(tmp_path), losses(by_two[0]), rtol=0, atol=1e-5)
    expected, values = weights(by_two[0]), weights(tmp_path)
    assert values.keys() == expected.keys(), "moments have their variables' names"
    for name, value in expected.items():
        # The loss does not depend on this bias: its gradients are rounding errors, which Adam
        # scales up.
        if not name.startswith("cls/squad/output_bias"):
            np.testing.assert_allclose(values[name], value, rtol=0, atol=1e-6, err_msg=name)


def test_a_killed_worker_ends_the_job(squad_dir, tmp_path):
    flags = "--use_horovod=true", "--remove_padding=false"
    job = at_step("kill", 1, squad_command(squad_dir, tmp_path, *flags), rank=1)
    assert run(under_mpirun(2, job)).returncode != 0
    assert not processes_of(tmp_path), "workers are left behind"


def test_a_hanging_worker_is_named(squad_dir, tmp_path):
    flags = "--use_horovod=true", "--remove_padding=false", "--stall_seconds=5"
    job = at_step("SIGSTOP", 1, squad_command(squad_dir, tmp_path, *flags), rank=1)
    result = run(under_mpirun(2, job))
    assert result.returncode == 1
    assert re.search(r"rank 1 on \S+ has not answered for \d+ s", error_line(result))
    assert not processes_of(tmp_path), "workers are left behind"


def test_an_error_of_all_workers_is_reported_once(squad_dir, tmp_path):
    flags = ["--use_horovod=true", "--learning_rate=1e20", "--remove_padding=false"]
    result = run(under_mpirun(2, squad_command(squad_dir, tmp_path, *flags)))
    assert_fails(result, 1, "NaN or infinite at step")
    assert not processes_of(tmp_path), "workers are left behind"


def test_a_worker_with_another_file_is_named(squad_dir, tmp_path):
    (tmp_path / "old.json").write_text(json.dumps(make_squad(7, 2)))
    command = squad_command(squad_dir, tmp_path / "out", "--use_horovod=true")
    names = {"": "json", "feature_": "tf_record", "feature_left_": "npz"}
    old = (f"--predict_{name}file={tmp_path / 'old'}.{names[name]}" for name in names)
    result = run_as_workers(2, command, *old)
    assert result.returncode == 1
    assert re.search(r"rank 1 on \S+ differs from rank 0 on \S+ in dev features", result.stderr)
    assert not list((tmp_path / "out").glob("model.ckpt*"))


def test_an_error_of_one_rank_names_it(squad_dir, tmp_path):
    """Before the workers are connected, from the variables that mpirun sets."""
    names = {"RANK": "1", "SIZE": "2", "LOCAL_RANK": "1", "LOCAL_SIZE": "2"}
    launched = {f"OMPI_COMM_WORLD_{name}": value for name, value in names.items()}
    command = squad_command(squad_dir, tmp_path, "--use_horovod", "--spm_model_file=none.model")
    result = run(command, env={**os.environ, **launched})
    assert_fails(result, 1)
    assert re.search(r": error: rank 1 of 2 on \S+: .*none\.model", result.stderr)
    assert not list(tmp_path.iterdir())
