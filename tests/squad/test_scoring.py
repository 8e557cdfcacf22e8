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


def test_exact_match():
    assert exact_match_score("The Cat.", "cat") is exact_match_score("", "the") is True
    for pair in (("cat sat", "sat cat"), ("école", "ecole"), ("Straße", "STRASSE")):
        assert exact_match_score(*pair) is False


def test_the_best_of_several_answers_counts():
    answers = ["red house", "big red house", "shed"]
    assert metric_max_over_ground_truths(f1_score, "the big house", answers) == pytest.approx(0.8)
    assert metric_max_over_ground_truths(exact_match_score, "shed!", answers) == 1
    assert metric_max_over_ground_truths(f1_score, "shed", []) == 0


def dataset_of(**answers):
    """A question for each id, in two articles: its answers' texts, or None for null."""
    questions = [
        {"id": i, "answers": None if texts is None else [{"text": text} for text in texts]}
        for i, texts in answers.items()
    ]
    half = len(questions) // 2
    parts = questions[:half], questions[half:]
    return [{"paragraphs": [{"context": "", "qas": part}]} for part in parts]


class TestEvaluate:
    @pytest.mark.parametrize(
        ("answers", "predictions", "exact", "f1"),
        [
            # F1: 1; the better of 1/2 and 2/3; 0. A prediction of another question does not count.
            (
                {"a": ["cat"], "b": ["big dog", "dog"], "c": ["old house"]},
                {"a": "The cat!", "b": "small dog", "c": "nothing", "x": "dog"},
                100 / 3,
                100 * (1 + 2 / 3) / 3,
            ),
            # Without words the texts are equal, and none of them is right.
            ({"a": ["cat"], "b": ["the"]}, {"a": "", "b": ""}, 50, 0),
            # No answers at all.
            (
                {"a": ["cat"], "b": [], "c": None, "d": ["cat"]},
                dict.fromkeys("abcd", "cat"),
                50,
                50,
            ),
        ],
    )
    def test_means_in_percent(self, answers, predictions, exact, f1, warnings):
        scores = evaluate_v1(dataset_of(**answers), predictions)
        assert scores == pytest.approx({"exact_match": exact, "f1": f1})
        assert warnings() == []

    def test_a_missing_prediction_scores_0_with_a_message(self, warnings):
        dataset = dataset_of(q1=["cat"], q2=["cat"])
        del dataset[0]["paragraphs"][0]["qas"][0]["answers"]
        scores = evaluate_v1(dataset, {"q2": "cat"})
        assert scores == {"exact_match": 50.0, "f1": 50.0}
        assert warnings() == ["1 questions have no prediction and score 0: q1"]

    def test_the_references_figures(self, shared):
        golden = shared / "golden" / "predictions_v1"
        files = [shared / "data/squad/dev-v1.1.json"]
        files += [golden / name for name in ("predictions.json", "eval.json")]
        dev, predictions, expected = (json.loads(f.read_text(encoding="utf-8")) for f in files)
        assert evaluate_v1(dev["data"], predictions) == pytest.approx(expected, abs=1e-9)


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
        answers = {str(i): texts for i, (texts, *_) in enumerate(cases)}
        predictions = {str(i): prediction for i, (_, prediction, _) in enumerate(cases)}
        odds = {str(i): value for i, (*_, value) in enumerate(cases)}
        data = dataset_of(**answers)
        examples = [
            SimpleNamespace(qas_id=i, answers=[{"text": text} for text in texts])
            for i, texts in answers.items()
        ]
        ours = evaluate_v2(data, predictions, odds)
        # Its probabilities of no answer are below 1 where the first scores are taken.
        theirs = metrics.squad_evaluate(examples, predictions)
        # The script itself has the best ones only with a file of probabilities.
        plain = {name: value for name, value in theirs.items() if not name.startswith("best")}
        assert evaluate_v2(data, predictions, None) == pytest.approx(plain)
        at_threshold = metrics.squad_evaluate(examples, predictions, odds, 1.0)
        # As the script's --na-prob-file and --na-prob-thresh.
        abstained = evaluate_v2(data, predictions, odds, 1.0)
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

    def test_texts_without_words(self):
        for gold, predicted, score in (("", "", 1), ("the", "", 1), ("x", "", 0), ("", "x", 0)):
            assert compute_exact(gold, predicted) == compute_f1(gold, predicted) == score
        assert compute_exact("x y", "x") == 0
        assert compute_f1("x y", "x") == pytest.approx(2 / 3)
        assert get_tokens("The Rhine, in 1998") == ["rhine", "in", "1998"]
        assert get_tokens("") == get_tokens(None) == []

    def test_a_question_without_prediction(self, warnings):
        data = dataset_of(a=["x"], b=[])
        assert get_raw_scores(data, {"b": ""}) == ({"b": 1}, {"b": 1})
        assert evaluate_v2(data, {"b": ""}, None)["total"] == 1
        evaluate_v2(dataset_of(**dict.fromkeys("abcde", [])), {"b": ""}, None)
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

        # Of the questions that have a prediction, as the official script has it.
        scores, odds, has_answer = {"a": 1.0}, {"a": 0.0}, {"a": True, "b": True}
        assert find_best_thresh({"a": "x"}, scores, odds, has_answer) == (100.0, 0.0)
