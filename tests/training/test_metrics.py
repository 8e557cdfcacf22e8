"""`metrics.jsonl`: what resuming and scoring again keep, and what a killed run leaves."""

import json
import math

import pytest

from albert.core.errors import UserError
from albert.training import metrics


def write(folder, *lines: tuple, end: bytes = b"") -> bytes:
    """Appends lines of a kind and a step, then some bytes; returns the content."""
    for kind, step in lines:
        about = {"checkpoint": f"model.ckpt-{step}", "best_by": "value"}
        metrics.append(str(folder), kind, step, {**about, "value": step / 10})
    with open(folder / "metrics.jsonl", "ab") as file:
        file.write(end)
    return (folder / "metrics.jsonl").read_bytes()


def steps(folder) -> list[tuple]:
    """Returns kind and step of the lines, each of which must be strict JSON."""
    text = (folder / "metrics.jsonl").read_text()
    lines = [json.loads(line, parse_constant=pytest.fail) for line in text.splitlines()]
    assert metrics.read(str(folder)) == lines
    return [(line["kind"], line["step"]) for line in lines]


def test_a_resumed_training_drops_the_steps_that_it_repeats(tmp_path):
    """Scores stay, because they belong to the checkpoints."""
    write(tmp_path, ("training", 1), ("training", 5), ("scores", 5), ("training", 9), ("scores", 9))
    metrics.keep_until(str(tmp_path), 5)
    assert steps(tmp_path) == [("training", 1), ("training", 5), ("scores", 5), ("scores", 9)]
    write(tmp_path, ("training", 6))
    assert steps(tmp_path)[-1] == ("training", 6)


@pytest.mark.parametrize("end", [b'{"kind": "training", "st', b"\xff", b"\n\n", b'{"kind": "tr\n'])
def test_an_incomplete_line_is_dropped(tmp_path, end):
    whole = write(tmp_path, ("training", 1), ("scores", 1))
    write(tmp_path, end=end)
    assert [line["step"] for line in metrics.read(str(tmp_path))] == [1, 1]
    metrics.keep_until(str(tmp_path), 1)
    assert (tmp_path / "metrics.jsonl").read_bytes() == whole


def test_numbers_that_are_not_finite_become_null_and_errors_are_named(tmp_path):
    metrics.append(str(tmp_path), "training", 1, {"loss": float("nan"), "rate": float("inf")})
    assert steps(tmp_path) == [("training", 1)]
    (line,) = metrics.read(str(tmp_path))
    assert line["loss"] is line["rate"] is None
    with pytest.raises(UserError, match="metrics.jsonl cannot be written: No such file"):
        metrics.append(str(tmp_path / "none"), "training", 1, {})


def test_the_deciding_score_is_the_last_one(tmp_path):
    assert metrics.deciding_score(str(tmp_path)) is None
    write(tmp_path, ("scores", 1), ("scores", 5), ("training", 9))
    assert metrics.deciding_score(str(tmp_path)) == ("value", 0.5)
    # Without true answers, the last checkpoint counts as the best.
    without = {"checkpoint": "model.ckpt-9", "best_by": "global_step"}
    metrics.append(str(tmp_path), "scores", 9, without)
    assert metrics.deciding_score(str(tmp_path)) == ("value", 0.5)
    metrics.append(str(tmp_path), "scores", 10, {"best_by": "f1", "f1": float("nan")})
    name, value = metrics.deciding_score(str(tmp_path))
    assert name == "f1" and math.isnan(value)
