"""What the demo says of a run that has ended."""

from __future__ import annotations

import json
import os
import shlex
import sys

import pytest

from sample import demo
from sample.generate import generate


@pytest.mark.parametrize(("f1", "code"), [(79.9, 1), (80.0, 0), (95.0, 0)])
def test_a_score_that_is_too_low_is_a_failure(tmp_path, capsys, f1, code):
    """CI runs the demo and sees its exit code alone."""
    _, dev = generate(1, train_articles=0, dev_articles=1)
    questions = [q for p in dev["data"][0]["paragraphs"] for q in p["qas"]]
    predictions = {q["id"]: q["answers"][0]["text"] for q in questions}
    for name, content in {
        "dev.json": dev,
        "predictions.json": predictions,
        "eval_results.json": {"exact_match": 50.0, "f1": f1},
    }.items():
        (tmp_path / name).write_text(json.dumps(content))
    assert demo._report(str(tmp_path / "dev.json"), str(tmp_path), "folder", 7) == code
    output = capsys.readouterr()
    assert f"F1 {f1:.1f}" in output.out and questions[0]["question"][:50] in output.out
    assert output.err == ("demo: error: F1 is below 80\n" if code else "")


def test_next_commands_are_for_a_shell_in_the_projects_folder(capsys):
    """`tests/readme/walk_through.py` runs them."""
    inside = os.path.join(demo.ROOT, "my demo", "run")
    paths = {"train_file": "/data/my train.json", "output_dir": f"{inside}-own"}
    demo._name_next_commands("run_squad_v2.py", paths, inside)
    words = shlex.split(capsys.readouterr().out.replace("\\\n", ""), comments=True)
    python = sys.executable.removeprefix(f"{demo.ROOT}/")
    commands = " ".join(words).split(f"{python} ")[1:]
    assert [command.split()[0] for command in commands] == ["ask.py", "serve.py", "run_squad_v2.py"]
    assert words.count("my demo/run") == 2
    assert {"--train_file=/data/my train.json", "--output_dir=my demo/run-own"} <= set(words)


@pytest.mark.parametrize(
    ("scores", "problem"),
    [
        ((70.0, 60.0, 80.0), ""),
        ((69.9, 60.0, 79.8), "F1 is below 70"),
        ((70.0, 59.9, 80.1), "HasAns_F1 is below 60"),
        ((75.0, 95.0, 55.0), "NoAns_F1 is below 60"),
    ],
)
def test_a_model_that_has_not_learned_to_abstain(tmp_path, capsys, scores, problem):
    _, dev = generate(1, train_articles=0, dev_articles=1, version="2.0")
    questions = [q for p in dev["data"][0]["paragraphs"] for q in p["qas"]]
    results = dict(zip(("f1", "HasAns_f1", "NoAns_f1"), scores, strict=True))
    for name, content in {
        "dev.json": dev,
        "predictions.json": {q["id"]: "" for q in questions},
        "eval_results.json": {"exact": 1.0, **results, "total": 24, "NoAns_total": 12},
    }.items():
        (tmp_path / name).write_text(json.dumps(content))
    code = demo._report(str(tmp_path / "dev.json"), str(tmp_path), "folder", 7)
    output = capsys.readouterr()
    assert f"F1 without one {scores[2]}" in output.out
    assert (code, output.err) == ((1, f"demo: error: {problem}\n") if problem else (0, ""))
