"""Runs that score each checkpoint as soon as it is written, and those that end by it."""

from __future__ import annotations

import json
import pathlib
import re
import signal

from tests.helpers.running import at_step, run, succeed
from tests.helpers.squad import squad_command

SAME = ("predictions.json", "nbest_predictions.json", "run.json", "eval_results.txt")


def checkpoints(folder: pathlib.Path) -> set[str]:
    return {path.stem for path in folder.glob("model.ckpt-*.index")}


def scores(folder: pathlib.Path) -> list[dict]:
    return json.loads((folder / "eval_results.json").read_text())["history"]


def test_the_files_are_those_of_a_run_that_scores_at_its_end(trained, squad_dir, tmp_path):
    log = succeed(squad_command(squad_dir, tmp_path, "--evaluate_while_training", "--log_steps=1"))
    for name in checkpoints(trained):
        data = f"{name}.data-00000-of-00001"
        assert (tmp_path / data).read_bytes() == (trained / data).read_bytes()
    for name in SAME:
        assert (tmp_path / name).read_text() == (trained / name).read_text()
    assert scores(tmp_path) == scores(trained)
    # Each is scored before the next step.
    found = re.findall(r"(?:step (\d+)/12|(model\.ckpt-\d+): exact_match)", log)
    order = [step or name for step, name in found]
    for step in (5, 10):
        assert order.index(f"model.ckpt-{step}") == order.index(str(step)) + 1
    assert order[-1] == "model.ckpt-12"


def test_a_run_without_patience_left_ends_however_often_it_is_stopped(squad_dir, tmp_path):
    """At this rate no score is better than the first. At step 3 nothing has been scored; at step 15
    the checkpoint is there and has no scores yet, or it is not there."""
    flags = "--learning_rate=0", "--patience=2", "--num_train_epochs=10", "--remove_padding=false"
    command = squad_command(squad_dir, tmp_path, *flags)
    assert run(at_step("SIGTERM", 3, command)).returncode == 128 + signal.SIGTERM
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
