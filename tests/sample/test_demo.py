"""What the demo says of a run that has ended."""

from __future__ import annotations

import json
import os
import shlex
import sys

import pytest

from sample import demo
from sample.generate import generate


@pytest.mark.parametrize(
    ("results", "shown", "problem"),
    [
        ({"exact_match": 50.0, "f1": 79.9}, "F1 79.9", "F1 is below 80"),
        ({"exact_match": 50.0, "f1": 80.0}, "F1 80.0", ""),
        ({"f1": 70.0, "HasAns_f1": 60.0, "NoAns_f1": 80.0}, "F1 without one 80.0", ""),
        ({"f1": 69.9, "HasAns_f1": 60.0, "NoAns_f1": 79.8}, "", "F1 is below 70"),
        ({"f1": 70.0, "HasAns_f1": 59.9, "NoAns_f1": 80.1}, "", "HasAns_F1 is below 60"),
        ({"f1": 75.0, "HasAns_f1": 95.0, "NoAns_f1": 55.0}, "", "NoAns_F1 is below 60"),
    ],
)
def test_a_score_that_is_too_low_is_a_failure(tmp_path, capsys, results, shown, problem):
    """CI runs the demo and sees its exit code alone."""
    version = "1.1" if "exact_match" in results else "2.0"
    _, dev = generate(1, train_articles=0, dev_articles=1, version=version)
    questions = [q for p in dev["data"][0]["paragraphs"] for q in p["qas"]]
    answers = {q["id"]: q["answers"][0]["text"] if q["answers"] else "" for q in questions}
    counts = {"exact": 1.0, "total": 24, "NoAns_total": 12} if version == "2.0" else {}
    files = {"dev": dev, "predictions": answers, "eval_results": {**results, **counts}}
    for name, content in files.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    code = demo._report(str(tmp_path / "dev.json"), str(tmp_path), "folder", 7)
    output = capsys.readouterr()
    assert shown in output.out and questions[0]["question"][:50] in output.out
    assert (code, output.err) == ((1, f"demo: error: {problem}\n") if problem else (0, ""))


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
