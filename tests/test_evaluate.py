"""`albert evaluate`, including files that other systems write."""

import json
import os
import sys

import pytest

from albert.cli import evaluate
from albert.cli.evaluate import EvaluateSettings
from albert.core.errors import FlagError, UserError
from tests.helpers.forking import ROOT
from tests.helpers.running import run
from tests.helpers.squad import make_squad, write_table


@pytest.fixture
def call(call_of):
    return call_of(evaluate.main, EvaluateSettings)


@pytest.fixture
def dev(tmp_path):
    """Returns a file of SQuAD 1.1 with 12 questions, and its true answers by id."""
    content = make_squad(5, articles=2)
    path = write(tmp_path / "dev.json", content)
    paragraphs = [p for article in content["data"] for p in article["paragraphs"]]
    return path, {q["id"]: q["answers"][0]["text"] for p in paragraphs for q in p["qas"]}


def write(path, content):
    path.write_text(json.dumps(content))
    return path


def test_one_file_is_scored_on_json_or_a_table(call, dev, tmp_path, log):
    path, answers = dev
    first, *others = answers
    predictions = write(tmp_path / "p.json", {i: answers[i] for i in others})
    scores = json.loads(call(predictions, f"--data={path}", "--json"))
    score, left_out = pytest.approx(1100 / 12), {"count": 1, "first": [first]}
    assert scores == {"exact_match": score, "f1": score, "left_out": left_out}
    assert log() == [f"1 questions have no prediction and score 0: {first}"]
    assert call(predictions, f"--data={path}") == "exact_match  91.67\nf1           91.67\n"

    # The data may be a table.
    write_table(path, tmp_path / "dev.csv")
    predictions = write(tmp_path / "p.json", {**answers, next(iter(answers)): "the wrong one"})
    expected = call(predictions, f"--data={path}")
    assert call(predictions, f"--data={tmp_path}/dev.csv") == expected


def test_predictions_of_the_library_evaluate_are_scored(call, dev, tmp_path):
    """In SQuAD 2.0 with their probabilities of no answer, as in a second file."""
    path, answers = dev
    listed = [{"id": i, "prediction_text": answer} for i, answer in answers.items()]
    predictions = write(tmp_path / "p.json", listed)
    assert call(predictions, f"--data={path}") == call(
        write(tmp_path / "own.json", answers), f"--data={path}"
    )
    with pytest.raises(UserError, match="p.json: an id occurs twice"):
        call(write(tmp_path / "p.json", [*listed, listed[0]]), f"--data={path}")
    content = json.loads(path.read_text())
    for article in content["data"]:
        for question in article["paragraphs"][0]["qas"]:
            question |= {"answers": [], "is_impossible": True}
    write(path, content)
    odds = {i: number / 12 for number, i in enumerate(answers)}
    listed = [{**one, "no_answer_probability": odds[one["id"]]} for one in listed]
    write(tmp_path / "p.json", listed), write(tmp_path / "odds.json", odds)
    flags = f"--data={path}", "--na_prob_thresh=0.4"
    expected = call(tmp_path / "own.json", *flags, f"--null_odds_file={tmp_path}/odds.json")
    assert call(predictions, *flags) == expected and "best_f1_thresh" in expected


def test_the_metric_decides_how_answers_are_compared(call, dev, tmp_path):
    path, answers = dev
    own = {i: f"{answer}x" for i, answer in answers.items()}
    predictions = write(tmp_path / "p.json", own)
    scores = json.loads(call(predictions, f"--data={path}", "--json", "--metric=character"))
    assert scores["exact_match"] == 0 and 60 < scores["f1"] < 100
    predictions = write(tmp_path / "p.json", {i: f"der {own}" for i, own in answers.items()})
    for language, exact in (("de", 100), ("es", 0)):
        flags = f"--data={path}", "--json", "--metric=mlqa", f"--language={language}"
        assert json.loads(call(predictions, *flags))["exact_match"] == exact


def test_two_files_are_compared(call, dev, tmp_path):
    path, answers = dev
    first, second = list(answers)[:2]
    own = ({**answers, first: "no \x1b[31m"}, {**answers, second: ""})
    files = [write(tmp_path / f"{n}.json", content) for n, content in enumerate(own)]
    lines = call(*files, f"--data={path}").splitlines()
    assert lines[1].split()[:4] == ["exact_match", "91.67", "91.67", "+0.00"]
    assert lines[3] == "the second is better on:" and lines[5] == "the second is worse on:"
    assert f"{first}: What" in lines[4] and lines[4].endswith(f"no ?[31m -> {answers[first]}")
    f1 = json.loads(call(*files, f"--data={path}", "--json"))["difference"]["f1"]
    assert (f1["better"], f1["worse"]) == ([first], [second])
    assert f1["low"] < 0 == f1["mean"] < f1["high"]
    # At most five are named.
    none = write(tmp_path / "3.json", dict.fromkeys(answers, "x"))
    lines = call(files[0], none, f"--data={path}").splitlines()
    assert len(lines[lines.index("the second is worse on:") :]) == 1 + 5


def test_each_file_abstains_by_its_own_odds(call, tmp_path):
    truth, qas = {"text": "one", "answer_start": 0}, []
    for n in "abcd":
        question = {"id": n, "question": "?", "is_impossible": n > "b"}
        qas.append({**question, "answers": [truth] * (n < "c")})
    data = {"version": "v2.0", "data": [{"paragraphs": [{"context": "one two", "qas": qas}]}]}
    data = f"--data={write(tmp_path / 'dev.json', data)}", "--json"
    answers = write(tmp_path / "p.json", dict.fromkeys("abcd", "one"))
    # The second file abstains where an answer exists, the first where none does.
    right, wrong = {"a": -3, "b": -3, "c": 0, "d": 3}, {"a": 0, "b": 3, "c": -3, "d": -3}
    files = [write(tmp_path / name, odds) for name, odds in (("r", right), ("w", wrong))]
    odds = [f"--null_odds_file={file}" for file in files]
    for threshold, exact in ((None, 75), (-1, 100), (-5, 50), (5, 50)):
        flags = [] if threshold is None else [f"--na_prob_thresh={threshold}"]
        scores = json.loads(call(answers, *data, odds[0], *flags))
        assert scores["exact"] == scores["f1"] == exact
    both = json.loads(call(answers, answers, *data, *odds, "--na_prob_thresh=-1"))
    assert (both["first"]["exact"], both["second"]["exact"]) == (100, 0)
    assert both["difference"]["exact"]["mean"] == -100
    with pytest.raises(FlagError, match="--metric=character is for SQuAD 1.1; .* is SQuAD 2.0"):
        call(answers, *data, "--metric=character")
    some, nan = dict.fromkeys("acd", 0), {"a": float("nan")}
    missing = "^1 questions have a prediction but no odds .* first is b; pass"
    for wrong, problem in ((some, missing), (nan, "question a has no number: nan")):
        write(tmp_path / "r", wrong)
        with pytest.raises(UserError, match=problem):
            call(answers, *data, odds[0])


def test_output_that_cannot_be_written_is_an_error(dev, tmp_path):
    """Standard output is closed, a pipe without a reader, or on a full disk."""
    predictions = write(tmp_path / "p.json", dev[1])
    # Unbuffered output fails earlier.
    environment = {n: v for n, v in os.environ.items() if n != "PYTHONUNBUFFERED"}
    for output, lines in ((">&-", 1), ("> >(exec true)", 0), ("> /dev/full", 1)):
        command = f'"$0" "{ROOT}/albert" evaluate {predictions} --data={dev[0]} {output}'
        result = run(["bash", "-c", command, sys.executable], env=environment)
        assert result.returncode == 1 and len(result.stderr.splitlines()) == lines, result.stderr


def test_runs_are_summarized(call, trained, squad_dir, tmp_path):
    own = json.loads((trained / "eval_results.json").read_text())
    other = write(tmp_path / "other.json", {**own, "f1": own["f1"] + 3})
    summary = json.loads(call(trained, other, "--json"))
    assert summary["f1"]["median"] == pytest.approx(own["f1"] + 1.5)
    assert [summary["exact_match"][end] for end in ("lowest", "highest")] == [
        own["exact_match"]
    ] * 2
    assert summary.keys() == {"runs", "f1", "exact_match"} and "median" in call(trained, other)
    scores = {name: own[name] for name in ("exact_match", "f1")}
    assert json.loads(call(trained, "--json")) == scores
    texts = {name: f"{value:.4g}" for name, value in scores.items()}
    width = max(map(len, texts.values()))
    assert call(trained) == "".join(f"{n:<13}{text:>{width}}\n" for n, text in texts.items())
    broken = write(tmp_path / "nan.json", {**own, "f1": float("nan")})
    assert json.loads(call(broken, "--json"))["f1"] is None and "NaN" not in call(broken, "--json")
    # Scored by their predictions.
    data = f"--data={squad_dir / 'dev-v1.1.json'}"
    assert json.loads(call(trained, data, "--json"))["f1"] == pytest.approx(own["f1"])
    both = json.loads(call(trained, trained / "predictions.json", data, "--json"))
    assert both["difference"]["f1"]["mean"] == 0


def test_a_run_with_labels_has_the_scores_of_each(call, tmp_path):
    scores = {"eval_accuracy": 0.5, "global_step": 3}
    write(tmp_path / "eval_results.json", scores)
    assert json.loads(call(tmp_path, "--json")) == {"eval_accuracy": 0.5}
    shares = {"no": 0.5, "yes": 0.5}
    samples = ({"id": n, "truth": n, "answer": "no", "probabilities": shares} for n in shares)
    (tmp_path / "predictions.jsonl").write_text("\n".join(map(json.dumps, samples)))
    report = json.loads(call(tmp_path, "--json"))
    assert report["classes"]["no"] == {"precision": 0.5, "recall": 1, "f1": 2 / 3, "support": 1}
    assert report["confusion"] == {"no": {"no": 1, "yes": 0}, "yes": {"no": 1, "yes": 0}}
    lines = call(tmp_path).splitlines()
    assert lines[0].split() == ["eval_accuracy", "0.5"] and lines[-1].split() == ["yes", "1", "0"]


@pytest.mark.parametrize(
    ("arguments", "error", "problem"),
    [
        ([], FlagError, "pass a file of predictions"),
        (["{1}", "--language=de"], FlagError, "--metric and --language need --data"),
        (["{1}"], UserError, "is not a record of scores; for predictions, pass --data"),
        (["p.json", "p.json", "p.json", "--data={0}"], FlagError, "one or two files .* not 3"),
        (["{1}", "--data={0}", "--null_odds_file=x"], FlagError, "for SQuAD 2.0; .* is SQuAD 1.1"),
        (["{1}", "--data={0}", "--na_prob_thresh=0"], FlagError, "needs --null_odds_file"),
        (["none.json", "--data={0}"], UserError, "predictions none.json cannot be read"),
        (["{0}", "--data={0}"], UserError, "question version has no text|question data"),
        (["{3}", "--data={0}"], UserError, "must be an object with question ids as keys"),
        (["{1}", "--data={4}"], UserError, "none of its ids is a question of"),
        (["{1}", "--data={1}"], UserError, "is not SQuAD"),
        (["{1}", "--data={2}"], UserError, "has no answers; pass a file with answers"),
    ],
)
def test_files_and_flags_that_do_not_fit_are_errors(call, dev, tmp_path, arguments, error, problem):
    predictions = write(tmp_path / "p.json", dev[1])
    question = {"id": "a", "question": "?"}
    data = [
        {"data": [{"paragraphs": [{"context": "", "qas": [{**question, "answers": answers}]}]}]}
        for answers in (None, [{"text": "x"}])
    ]
    test, other = (write(tmp_path / f"{n}.json", content) for n, content in enumerate(data))
    listed = write(tmp_path / "list.json", [])
    with pytest.raises(error, match=problem):
        call(*(a.format(dev[0], predictions, test, listed, other) for a in arguments))
