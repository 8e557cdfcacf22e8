"""Exact match and F1, by hand and against the reference's figures."""

import logging
from types import SimpleNamespace

import hypothesis
import pytest
from hypothesis import strategies as st

from squad.scoring import (
    evaluate_v1,
    evaluate_v2,
    find_best_thresh,
    get_raw_scores,
    normalize_answer_v1,
)
from tests.helpers.squad import official_script

PARTS = ["the", "A", "an", "Theatre", "cat", ".", "-", " ", "\t", "\u00a0", "É", "ß", "“", "'", "_"]


@hypothesis.given(st.lists(st.sampled_from(PARTS)).map("".join))
@hypothesis.example("THE A-Team: don't (stop)! ÉCOLE Straße a_b the_c $1,000.50")
def test_normalize(text):
    assert normalize_answer_v1(text) == official_script().normalize_answer(text)


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
            ({"a": ["cat"], "b": [], "c": None}, dict.fromkeys("abc", "cat"), 100 / 3, 100 / 3),
        ],
    )
    def test_means_in_percent(self, answers, predictions, exact, f1, log):
        scores = evaluate_v1(dataset_of(**answers), predictions)
        assert scores == pytest.approx({"exact_match": exact, "f1": f1})
        assert log(logging.WARNING) == []

    def test_a_missing_prediction_scores_0_with_a_message(self, log):
        dataset = dataset_of(q1=["cat"], q2=["cat"])
        del dataset[0]["paragraphs"][0]["qas"][0]["answers"]
        scores = evaluate_v1(dataset, {"q2": "cat"})
        assert scores == {"exact_match": 50.0, "f1": 50.0}
        assert log(logging.WARNING) == ["1 questions have no prediction and score 0: q1"]


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
        answers, predictions, odds = (
            {str(i): value for i, value in enumerate(column)} for column in zip(*cases, strict=True)
        )
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

    def test_a_question_without_prediction(self, log):
        data = dataset_of(a=["x"], b=[])
        assert get_raw_scores(data, {"b": ""}) == ({"b": 1}, {"b": 1})
        assert evaluate_v2(data, {"b": ""}, None)["total"] == 1
        evaluate_v2(dataset_of(**dict.fromkeys("abcde", [])), {"b": ""}, None)
        assert log(logging.WARNING) == [
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
