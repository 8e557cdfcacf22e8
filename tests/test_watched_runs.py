"""Runs that score each checkpoint as soon as it is written, and those that end by it."""

from __future__ import annotations

import json
import pathlib
import re
import signal

import pytest

from tests.helpers.running import at_step, run, run_as_workers
from tests.helpers.squad import squad_command

SAME = ("predictions.json", "nbest_predictions.json", "run.json", "eval_results.txt")


def checkpoints(folder: pathlib.Path) -> set[str]:
    return {path.stem for path in folder.glob("model.ckpt-*.index")}


def scores(folder: pathlib.Path) -> list[dict]:
    return json.loads((folder / "eval_results.json").read_text())["history"]


def test_the_files_are_those_of_a_run_that_scores_at_its_end(trained, squad_dir, tmp_path):
    result = run(squad_command(squad_dir, tmp_path, "--evaluate_while_training", "--log_steps=1"))
    assert result.returncode == 0, result.stderr
    for name in checkpoints(trained):
        data = f"{name}.data-00000-of-00001"
        assert (tmp_path / data).read_bytes() == (trained / data).read_bytes()
    for name in SAME:
        assert (tmp_path / name).read_text() == (trained / name).read_text()
    assert scores(tmp_path) == scores(trained)
    # Each is scored before the next step.
    found = re.findall(r"(?:step (\d+)/12|(model\.ckpt-\d+): exact_match)", result.stderr)
    order = [step or name for step, name in found]
    for step in (5, 10):
        assert order.index(f"model.ckpt-{step}") == order.index(str(step)) + 1
    assert order[-1] == "model.ckpt-12"


@pytest.fixture(scope="module")
def command(squad_dir):
    """The command of a run in a folder; at this rate no score is better than the first."""
    flags = ("--learning_rate=0", "--patience=2", "--num_train_epochs=10")
    return lambda folder, *more: squad_command(squad_dir, folder, *flags, *more)


class TestPatience:
    @pytest.fixture(scope="class")
    def stopped(self, command, tmp_path_factory) -> pathlib.Path:
        folder = tmp_path_factory.mktemp("stopped")
        result = run(command(folder))
        assert result.returncode == 0, result.stderr
        assert "No better score in 2 checkpoints: the training ends here" in result.stderr
        return folder

    def test_ends_the_training(self, stopped):
        expected = {"model.ckpt-best", *(f"model.ckpt-{step}" for step in (5, 10, 15))}
        assert checkpoints(stopped) == expected
        best = json.loads((stopped / "eval_results.json").read_text())
        assert best["global_step"] == 5 and len(best["history"]) == 3

    def test_the_same_command_ends_at_once(self, stopped, command):
        before = checkpoints(stopped)
        result = run(command(stopped))
        assert result.returncode == 0, result.stderr
        assert "No better score" in result.stderr and "Training from" not in result.stderr
        assert checkpoints(stopped) == before

    def test_killed_and_resumed_ends_as_one_that_was_not(self, stopped, command, tmp_path):
        """At step 3 nothing has been scored; at step 15 the checkpoint is there and has no scores
        yet, or it is not there."""
        assert run(at_step("SIGTERM", 3, command(tmp_path))).returncode == 128 + signal.SIGTERM
        assert (tmp_path / "resume.ckpt-3.index").exists()
        for step in (7, 15):
            assert run(at_step("kill", step, command(tmp_path))).returncode == -signal.SIGKILL
        result = run(command(tmp_path))
        assert result.returncode == 0, result.stderr
        assert checkpoints(tmp_path) == checkpoints(stopped)
        assert scores(tmp_path) == scores(stopped)

    def test_several_workers_end_together(self, stopped, command, tmp_path, mpirun):
        result = run_as_workers(2, command(tmp_path, "--use_horovod", "--patience=1"))
        assert result.returncode == 0, result.stderr
        assert checkpoints(tmp_path) == {f"model.ckpt-{step}" for step in ("best", 5, 10)}
        assert scores(tmp_path)[0]["f1"] == scores(stopped)[0]["f1"]
