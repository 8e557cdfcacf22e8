"""Exact match and F1, by hand and against the reference's figures."""

import json
from types import SimpleNamespace

import hypothesis
import pytest
import tensorflow.compat.v1 as tf
from hypothesis import strategies as st

from squad.scoring import (
    apply_no_ans_threshold,
    compute_exact,
    compute_f1,
    evaluate_v1,
    evaluate_v2,
    exact_match_score,
    f1_score,
    find_best_thresh,
    get_raw_scores,
    get_tokens,
    make_eval_dict,
    metric_max_over_ground_truths,
    normalize_answer_v1,
    questions_of,
)
from tests.helpers.squad import official_script


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
        assert warnings() == ["1 questions have no prediction and score 0: q1"]

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


WORDS = st.lists(st.sampled_from(["the", "a", "Rhine", "rhine", "in", "1998", "!", ""]), max_size=4)
TEXTS = WORDS.map(" ".join)


class TestVersion2:
    """By the official script of SQuAD 2.0; `transformers` has its functions."""

    @hypothesis.given(
        st.lists(st.tuples(st.lists(TEXTS, max_size=3), TEXTS, st.floats(-5, 5)), min_size=1)
    )
    @hypothesis.settings(max_examples=50)
    def test_as_the_official_script(self, cases):
        metrics = official_script()
        answers = {
            str(i): [{"text": text} for text in texts] for i, (texts, *_) in enumerate(cases)
        }
        predictions = {str(i): prediction for i, (_, prediction, _) in enumerate(cases)}
        odds = {str(i): value for i, (*_, value) in enumerate(cases)}
        examples = [SimpleNamespace(qas_id=i, answers=texts) for i, texts in answers.items()]
        ours = evaluate_v2(dataset_of(answers), predictions, odds)
        # Its probabilities of no answer are below 1 where the first scores are taken.
        theirs = metrics.squad_evaluate(examples, predictions)
        # The script itself has the best ones only with a file of probabilities.
        plain = {name: value for name, value in theirs.items() if not name.startswith("best")}
        assert evaluate_v2(dataset_of(answers), predictions, None) == pytest.approx(plain)
        at_threshold = metrics.squad_evaluate(examples, predictions, odds, 1.0)
        # As the script's --na-prob-file and --na-prob-thresh.
        abstained = evaluate_v2(dataset_of(answers), predictions, odds, 1.0)
        assert abstained == pytest.approx(dict(at_threshold))
        exact, f1 = metrics.get_raw_scores(examples, predictions)
        has_answer = {i: bool(texts) for i, texts in answers.items()}
        metrics.find_all_best_thresh(theirs, predictions, exact, f1, odds, has_answer)
        assert ours == pytest.approx(dict(theirs))

    def test_of_the_references_figures(self, shared):
        folder = shared / "golden" / "predictions_v2"
        odds, answers = (
            json.loads((folder / name).read_text())
            for name in ("null_odds.json", "predictions.json")
        )
        data = json.loads((shared / "data" / "squad" / "dev-v2.0.json").read_text())["data"]
        scores = evaluate_v2(data, answers, odds)
        assert scores["total"] == len(answers) == 1158
        assert scores["HasAns_total"] + scores["NoAns_total"] == 1158
        # The reference abstains besides where the odds are above 1.
        raw = get_raw_scores(data, answers)
        has_answer = {q["id"]: bool(q["answers"]) for q in questions_of(data)}
        expected = json.loads((folder / "eval.json").read_text())
        abstained = [apply_no_ans_threshold(r, odds, has_answer, 1.0) for r in raw]
        for key, value in make_eval_dict(*abstained).items():
            assert value == pytest.approx(expected[key], abs=1e-9)

    @pytest.mark.parametrize(
        ("gold", "predicted", "exact", "f1"),
        [
            ("", "", 1, 1),
            ("the", "", 1, 1),
            ("x", "", 0, 0),
            ("", "x", 0, 0),
            ("x y", "x", 0, 2 / 3),
        ],
    )
    def test_texts_without_words(self, gold, predicted, exact, f1):
        assert compute_exact(gold, predicted) == exact
        assert compute_f1(gold, predicted) == pytest.approx(f1)

    def test_tokens(self):
        assert get_tokens("The Rhine, in 1998") == ["rhine", "in", "1998"]
        assert get_tokens("") == get_tokens(None) == []

    def test_a_question_without_prediction(self, warnings):
        data = dataset_of({"a": [{"text": "x"}], "b": []})
        assert get_raw_scores(data, {"b": ""}) == ({"b": 1}, {"b": 1})
        assert evaluate_v2(data, {"b": ""}, None)["total"] == 1
        evaluate_v2(dataset_of(dict.fromkeys("abcde", [])), {"b": ""}, None)
        assert warnings() == [
            "1 questions have no prediction and are left out: a",
            "4 questions have no prediction and are left out: a, c, d, ...",
        ]

    def test_best_threshold_by_hand(self):
        """All abstaining is right for c alone; a and b in turn are right, c is wrong, d gains."""
        scores = {"a": 1.0, "b": 0.5, "c": 0.0, "d": 1.0}
        odds = {"d": 3.0, "c": 2.0, "b": 0.5, "a": -1.0}
        has_answer = {"a": True, "b": True, "c": False, "d": True}
        best, threshold = find_best_thresh(dict.fromkeys("abcd", "x"), scores, odds, has_answer)
        assert (best, threshold) == (100 * 2.5 / 4, 0.5)

    def test_best_threshold_of_a_part_of_the_questions(self, warnings):
        """Of those that have a prediction, as the official script has it."""
        scores, odds, has_answer = {"a": 1.0}, {"a": 0.0}, {"a": True, "b": True}
        assert find_best_thresh({"a": "x"}, scores, odds, has_answer) == (100.0, 0.0)


def dataset_of(answers):
    questions = [{"id": i, "answers": texts} for i, texts in answers.items()]
    return [{"paragraphs": [{"context": "", "qas": questions}]}]
