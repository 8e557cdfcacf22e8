"""Exact match and F1, by hand and against the reference's figures."""

import json

import pytest
import tensorflow.compat.v1 as tf

from squad.scoring import (
    evaluate_v1,
    exact_match_score,
    f1_score,
    metric_max_over_ground_truths,
    normalize_answer_v1,
)


@pytest.fixture
def warnings(caplog, monkeypatch):
    monkeypatch.setattr(tf.get_logger(), "propagate", True)
    return lambda: [r.getMessage() for r in caplog.records]


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("The Rhine", "rhine"),
        ("a cat, an owl and the dog", "cat owl and dog"),
        ("Theatre anatomy a", "theatre anatomy"),
        ("A-Team", "ateam"),
        ("the.end", "theend"),
        ("U.S.A.", "usa"),
        ("$1,000.50", "100050"),
        ("don't (stop)!", "dont stop"),
        ("  two \t words \n", "two words"),
        ("ÉCOLE Straße", "école straße"),
        ("“quoted” – dash…", "“quoted” – dash…"),
        ("no\u00a0break", "no break"),
        ("the", ""),
        ("?!", ""),
        ("", ""),
        ("THE A An", ""),
        ("a_b the_c", "ab thec"),
    ],
)
def test_normalize(text, normal):
    assert normalize_answer_v1(text) == normal


@pytest.mark.parametrize(
    ("prediction", "truth", "f1"),
    [
        ("the cat sat", "a cat sat", 1.0),
        ("cat", "cat sat", 2 * 1 * 0.5 / 1.5),
        ("black cat sat down", "the cat sat", 2 * 0.5 * 1 / 1.5),
        ("one two three", "three four five six", 2 * (1 / 3) * (1 / 4) / (1 / 3 + 1 / 4)),
        ("no no no", "no no yes", 2 / 3),
        ("no", "no no no", 2 * 1 * (1 / 3) / (4 / 3)),
        ("b a c", "c b", 1.0),
        ("dog", "cat", 0.0),
        ("", "cat", 0.0),
        ("cat", "", 0.0),
        ("", "", 0.0),
        ("1,000", "1000", 1.0),
    ],
)
def test_f1(prediction, truth, f1):
    assert f1_score(prediction, truth) == pytest.approx(f1, abs=1e-12)


@pytest.mark.parametrize(
    ("prediction", "truth", "same"),
    [
        ("The Cat.", "cat", True),
        ("cat sat", "sat cat", False),
        ("", "the", True),
        ("école", "ecole", False),
        ("Straße", "STRASSE", False),
    ],
)
def test_exact_match(prediction, truth, same):
    assert exact_match_score(prediction, truth) is same


def test_the_best_of_several_answers_counts():
    answers = ["red house", "big red house", "shed"]
    assert metric_max_over_ground_truths(f1_score, "the big house", answers) == pytest.approx(0.8)
    assert metric_max_over_ground_truths(exact_match_score, "shed!", answers) == 1
    assert metric_max_over_ground_truths(f1_score, "shed", []) == 0


def make_dataset(**answers):
    """A question for each id; its answers' texts, or None for no "answers" at all."""
    questions = [
        {"id": qas_id, "question": "?"}
        | ({} if texts is None else {"answers": [{"text": text} for text in texts]})
        for qas_id, texts in answers.items()
    ]
    half = len(questions) // 2
    paragraphs = [{"context": "", "qas": part} for part in (questions[:half], questions[half:])]
    return [{"title": "t", "paragraphs": [p]} for p in paragraphs]


class TestEvaluate:
    def test_means_over_all_questions_in_percent(self):
        dataset = make_dataset(a=["cat"], b=["big dog", "dog"], c=["old house"])
        predictions = {"a": "The cat!", "b": "small dog", "c": "nothing"}
        # F1: 1; the better of 1/2 and 2/3; 0.
        scores = evaluate_v1(dataset, predictions)
        assert scores == pytest.approx({"exact_match": 100 / 3, "f1": 100 * (1 + 2 / 3) / 3})

    def test_a_missing_prediction_scores_0_with_a_message(self, warnings):
        scores = evaluate_v1(make_dataset(q1=["cat"], q2=["cat"]), {"q2": "cat"})
        assert scores == {"exact_match": 50.0, "f1": 50.0}
        assert warnings() == ["Unanswered question q1 will receive score 0."]

    def test_an_empty_prediction(self, warnings):
        dataset = make_dataset(q1=["cat"], q2=["the"])
        assert evaluate_v1(dataset, {"q1": "", "q2": ""}) == {"exact_match": 50.0, "f1": 0.0}
        assert warnings() == []

    def test_questions_without_answers(self):
        dataset = make_dataset(q1=["cat"], q2=[], q3=None, q4=["cat"])
        scores = evaluate_v1(dataset, dict.fromkeys(["q1", "q2", "q3", "q4"], "cat"))
        assert scores == {"exact_match": 50.0, "f1": 50.0}

    def test_answers_that_are_null(self):
        """Reading a file takes them for none, so scoring must."""
        dataset = make_dataset(q1=["cat"], q2=None)
        dataset[1]["paragraphs"][0]["qas"][0]["answers"] = None
        assert evaluate_v1(dataset, {"q1": "cat", "q2": "cat"})["f1"] == 50.0

    def test_predictions_of_other_questions_do_not_count(self):
        assert evaluate_v1(make_dataset(q1=["cat"]), {"q1": "cat", "x": "dog"})["f1"] == 100.0

    def test_the_references_figures(self, shared):
        golden = shared / "golden" / "predictions_v1"
        files = (shared / "data/squad/dev-v1.1.json", *map(golden.joinpath, FILES))
        dev, predictions, expected = (json.loads(f.read_text(encoding="utf-8")) for f in files)
        assert evaluate_v1(dev["data"], predictions) == pytest.approx(expected, abs=1e-9)


FILES = ("predictions.json", "eval.json")
