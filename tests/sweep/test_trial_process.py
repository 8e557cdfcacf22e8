"""The process of a trial: its scores are followed, and it ends with the sweep."""

import os
import signal
import sys

import pytest

from albert.core import signals
from albert.sweep import trial_process
from albert.sweep.trial_process import Score, run_trial, scores_in
from albert.training import metrics
from tests.helpers.running import exit_code, fork, without_tensorflow
from tests.helpers.serving import until

# Writes scores as the arguments say, then waits for a signal if the last one is "wait".
PROGRAM = """
import os, pathlib, signal, sys
from albert.training import metrics
folder, *scores = sys.argv[1:]
pathlib.Path(folder, "pid").write_text(str(os.getpid()))
def stop(number, frame):
    pathlib.Path(folder, "stopped").write_text(signal.Signals(number).name)
    sys.exit(143)
signal.signal(signal.SIGTERM, stop)
for number, score in enumerate(scores):
    if score == "wait":
        signal.pause()
    values = {"checkpoint": f"model.ckpt-{number}", "best_by": "f1", "f1": float(score)}
    metrics.append(folder, "scores", 10 * number, values)
print("the last line")
sys.exit(3)
"""


@pytest.fixture
def trial(tmp_path, monkeypatch):
    monkeypatch.setattr(trial_process, "_SECONDS_BETWEEN", 0.05)
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "out").mkdir()

    def trial(*scores: object, wants_end=lambda score: False) -> int | None:
        command = [sys.executable, str(tmp_path / "program.py"), str(tmp_path / "out")]
        given = [*command, *map(str, scores)]
        return run_trial(given, str(tmp_path / "out"), str(tmp_path / "log"), wants_end)

    monkeypatch.setenv("PYTHONPATH", os.getcwd())
    return trial


def test_every_score_is_reported_once_and_output_is_kept(trial, tmp_path):
    seen = []
    assert trial(0.5, 0.25, wants_end=lambda score: seen.append(score)) == 3
    assert seen == [Score(1, 0, "f1", 0.5), Score(2, 10, "f1", 0.25)] == scores_in(tmp_path / "out")
    assert trial("nan") == 3
    assert without_tensorflow((tmp_path / "log").read_text()) == "the last line\n" * 2
    # A score that is not finite, and lines that are no scores.
    without = {"checkpoint": "model.ckpt-30", "best_by": "global_step"}
    metrics.append(tmp_path / "out", "scores", 30, without)
    values = [score.value for score in scores_in(tmp_path / "out")]
    assert values[:1] + values[2:] == [0.5, 0.25] and str(values[1]) == "nan"


def test_a_trial_is_ended_after_its_step(trial, tmp_path):
    assert trial(0.5, 0.25, "wait", wants_end=lambda score: score.value < 0.3) is None
    assert (tmp_path / "out/stopped").read_text() == "SIGTERM"


def test_a_trial_that_ended_itself_is_not_pruned(trial, tmp_path):
    """Its last score may be the lowest."""

    def has_ended() -> bool:
        pid = int((tmp_path / "out/pid").read_text())
        # All of its threads, and without taking the exit code.
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    assert trial(0.5, wants_end=lambda score: until(has_ended) or True) == 3


def test_a_signal_ends_the_trial_and_then_the_sweep(trial, tmp_path, monkeypatch):
    monkeypatch.setattr(signals, "deferred", lambda: scores_in(tmp_path / "out") and signal.SIGINT)
    with pytest.raises(signals.Stopped, match="stopped by SIGINT in .*/out, which is saved"):
        trial(0.5, "wait")
    assert (tmp_path / "out/stopped").read_text() == "SIGTERM"
    signals._state.acknowledged = False


def test_a_trial_ends_with_a_killed_sweep(trial, tmp_path):
    def die(score) -> bool:
        os.kill(os.getpid(), signal.SIGKILL)
        return False

    assert exit_code(fork(lambda: trial(0.5, "wait", wants_end=die))) == -signal.SIGKILL
    until((tmp_path / "out/stopped").exists)
