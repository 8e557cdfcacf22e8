"""`evaluate.py`, on files as other systems write them too."""

from __future__ import annotations

import json

import pytest
import tensorflow.compat.v1 as tf

import evaluate
from runtime.errors import FlagError, UserError
from tests.helpers.squad import make_squad


@pytest.fixture
def call(set_flags, capsys):
    """Calls the program and returns what it prints."""

    def call(*arguments):
        paths = [a for a in map(str, arguments) if not a.startswith("--")]
        set_flags([evaluate.define_flags], *(a for a in map(str, arguments) if a.startswith("--")))
        evaluate.main(["evaluate.py", *paths])
        return capsys.readouterr().out

    return call


@pytest.fixture
def dev(tmp_path):
    """A file of SQuAD 1.1 with 6 questions, and its true answers by id."""
    content = make_squad(5, articles=1)
    path = tmp_path / "dev.json"
    path.write_text(json.dumps(content))
    questions = [q for p in content["data"][0]["paragraphs"] for q in p["qas"]]
    return path, {q["id"]: q["answers"][0]["text"] for q in questions}


def write(path, content):
    path.write_text(json.dumps(content))
    return path


def test_one_file(call, dev, tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(tf.get_logger(), "propagate", True)
    path, answers = dev
    first, *others = answers
    predictions = write(tmp_path / "p.json", {i: answers[i] for i in others})
    found = json.loads(call(predictions, f"--data={path}", "--json"))
    assert found == {
        "exact_match": pytest.approx(500 / 6),
        "f1": pytest.approx(500 / 6),
        "left_out": {"count": 1, "first": [first]},
    }
    text = f"1 questions have no prediction and score 0: {first}"
    assert [record.getMessage() for record in caplog.records] == [text]
    assert call(predictions, f"--data={path}") == "exact_match  83.33\nf1           83.33\n"


def test_two_files(call, dev, tmp_path):
    path, answers = dev
    first, second = list(answers)[:2]
    files = [
        write(tmp_path / "1.json", {**answers, first: "no \x1b[31m"}),
        write(tmp_path / "2.json", {**answers, second: ""}),
    ]
    lines = call(*files, f"--data={path}").splitlines()
    assert lines[1].split()[:4] == ["exact_match", "83.33", "83.33", "+0.00"]
    assert [line for line in lines if line.startswith("the second is")] == [
        "the second is better on:",
        "the second is worse on:",
    ]
    assert f"{first}: What" in lines[4] and lines[4].endswith(f"no ?[31m -> {answers[first]}")
    found = json.loads(call(*files, f"--data={path}", "--json"))["difference"]["f1"]
    assert (found["better"], found["worse"]) == ([first], [second])
    assert found["low"] < 0 == found["mean"] < found["high"]


def test_runs(call, trained, tmp_path):
    """Of folders or of their records, of whatever task."""
    own = json.loads((trained / "eval_results.json").read_text())
    other = write(tmp_path / "other.json", {**own, "f1": own["f1"] + 3})
    found = json.loads(call(trained, other, "--json"))
    assert found["f1"]["median"] == pytest.approx(own["f1"] + 1.5)
    assert found["exact_match"]["lowest"] == found["exact_match"]["highest"] == own["exact_match"]
    assert found.keys() == {"runs", "f1", "exact_match"}
    assert "median" in call(trained, other)
    scores = {name: own[name] for name in ("exact_match", "f1")}
    assert json.loads(call(trained, "--json")) == scores
    assert call(trained) == "".join(f"{n:<13}{v:.4g}\n" for n, v in scores.items())
    broken = write(tmp_path / "nan.json", {**own, "f1": float("nan")})
    assert json.loads(call(broken, "--json"))["f1"] is None and "NaN" not in call(broken, "--json")


def test_the_predictions_of_runs(call, trained, squad_dir):
    own = json.loads((trained / "eval_results.json").read_text())
    data = f"--data={squad_dir / 'dev-v1.1.json'}"
    assert json.loads(call(trained, data, "--json"))["f1"] == pytest.approx(own["f1"])
    both = json.loads(call(trained, trained / "predictions.json", data, "--json"))
    assert both["difference"]["f1"]["mean"] == 0


@pytest.mark.parametrize(
    ("arguments", "error", "problem"),
    [
        ([], FlagError, "name a file of predictions"),
        (["{1}"], UserError, "is no record of scores; predictions need --data"),
        (["p.json", "p.json", "p.json", "--data={0}"], FlagError, "one or two files .* not 3"),
        (["{1}", "--data={0}", "--null_odds_file=x"], FlagError, "for SQuAD 2.0; .* is SQuAD 1.1"),
        (["{1}", "--data={0}", "--na_prob_thresh=0"], FlagError, "needs --null_odds_file"),
        (["none.json", "--data={0}"], UserError, "predictions none.json cannot be read"),
        (["{0}", "--data={0}"], UserError, "question version has no text|question data"),
        (["{1}", "{1}"], UserError, "is no record of scores; predictions need --data"),
        (["{1}", "--data={1}"], UserError, "is not SQuAD"),
    ],
)
def test_what_does_not_fit(call, dev, tmp_path, arguments, error, problem):
    predictions = write(tmp_path / "p.json", dev[1])
    with pytest.raises(error, match=problem):
        call(*(a.format(dev[0], predictions) for a in arguments))


def test_data_without_answers(call, tmp_path):
    question = {"id": "a", "question": "?"}
    data = [{"paragraphs": [{"context": "", "qas": [question]}]}]
    path = write(tmp_path / "test.json", {"data": data})
    with pytest.raises(UserError, match="has no answers to compare with"):
        call(write(tmp_path / "p.json", {"a": "x"}), f"--data={path}")
