"""Exact match and F1, by hand and compared with the reference's figures."""

import logging
from types import SimpleNamespace

import hypothesis
import pytest
from hypothesis import strategies as st

from albert.tasks.squad import scoring
from albert.tasks.squad.predictions import NO_FEATURES
from albert.tasks.squad.question_scores import QuestionScores, QuestionScoresV2
from tests.helpers.squad import official_script

PARTS = ["the", "A", "an", "Theatre", "cat", ".", "-", " ", "\t", "\u00a0", "É", "ß", "“", "'", "_"]


@hypothesis.given(st.lists(st.sampled_from(PARTS)).map("".join))
@hypothesis.example("THE A-Team: don't (stop)! ÉCOLE Straße a_b the_c $1,000.50")
def test_normalization_is_the_official_scripts(text):
    assert scoring.normalize_answer_v1(text) == official_script().normalize_answer(text)


def dataset_of(**answers):
    """Returns a question for each id, in two articles: its answers' texts, or None for null."""
    questions = [
        {"id": i, "answers": None if texts is None else [{"text": text} for text in texts]}
        for i, texts in answers.items()
    ]
    half = len(questions) // 2
    parts = questions[:half], questions[half:]
    return [{"paragraphs": [{"context": "", "qas": part}]} for part in parts]


class TestEvaluate:
    def test_scores_are_means_in_percent(self, log):
        # F1: 1; the better of 1/2 and 2/3; 0. A prediction of another question does not count.
        true = {"a": ["cat"], "b": ["big dog", "dog"], "c": ["old house"]}
        found = {"a": "The cat!", "b": "small dog", "c": "nothing", "x": "dog"}
        for answers, predictions, exact, f1 in (
            (true, found, 100 / 3, 100 * (1 + 2 / 3) / 3),
            # Both texts are empty after normalization, and neither is right.
            ({"a": ["cat"], "b": ["the"]}, {"a": "", "b": ""}, 50, 0),
            # No answers at all.
            ({"a": ["cat"], "b": [], "c": None}, dict.fromkeys("abc", "cat"), 100 / 3, 100 / 3),
        ):
            scores = scoring.evaluate_v1(dataset_of(**answers), predictions)
            assert scores == pytest.approx({"exact_match": exact, "f1": f1})
        assert log(logging.WARNING) == []

    def test_a_missing_prediction_scores_0_with_a_warning(self, log):
        dataset = dataset_of(q1=["cat"], q2=["cat"])
        del dataset[0]["paragraphs"][0]["qas"][0]["answers"]
        scores = scoring.evaluate_v1(dataset, {"q2": "cat"})
        assert scores == {"exact_match": 50.0, "f1": 50.0}
        assert log(logging.WARNING) == ["1 questions have no prediction and score 0: q1"]


WORDS = st.lists(st.sampled_from(["the", "a", "Rhine", "rhine", "in", "1998", "!", ""]), max_size=4)
TEXTS = WORDS.map(" ".join)


class TestVersion2:
    """Version 2.0 as the official script scores it; `transformers` has its functions."""

    @hypothesis.given(
        st.lists(st.tuples(st.lists(TEXTS, max_size=3), TEXTS, st.floats(-5, 5)), min_size=1)
    )
    @hypothesis.settings(max_examples=50)
    def test_scores_are_the_official_scripts(self, cases):
        metrics = official_script()
        answers, predictions, odds = (
            {str(i): value for i, value in enumerate(column)} for column in zip(*cases, strict=True)
        )
        data = dataset_of(**answers)
        examples = [
            SimpleNamespace(qas_id=i, answers=[{"text": text} for text in texts])
            for i, texts in answers.items()
        ]
        ours = scoring.evaluate_v2(data, predictions, odds)
        # The script's first scores are taken where its probabilities of no answer are below 1.
        theirs = metrics.squad_evaluate(examples, predictions)
        # The script computes the best scores only with a file of probabilities.
        plain = {name: value for name, value in theirs.items() if not name.startswith("best")}
        assert scoring.evaluate_v2(data, predictions, None) == pytest.approx(plain)
        at_threshold = metrics.squad_evaluate(examples, predictions, odds, 1.0)
        # As with the script's --na-prob-file and --na-prob-thresh.
        abstained = scoring.evaluate_v2(data, predictions, odds, 1.0)
        assert abstained == pytest.approx(dict(at_threshold))
        exact, f1 = metrics.get_raw_scores(examples, predictions)
        has_answer = {i: bool(texts) for i, texts in answers.items()}
        metrics.find_all_best_thresh(theirs, predictions, exact, f1, odds, has_answer)
        assert ours == pytest.approx(dict(theirs))

    @hypothesis.given(
        st.lists(
            st.tuples(
                st.lists(TEXTS, max_size=3), TEXTS, st.sampled_from([-1.5, 0.1, 0.7, NO_FEATURES])
            ),
            min_size=1,
        ),
        st.sampled_from([None, 0.1, 1.0]),
    )
    def test_scores_question_by_question_are_the_same(self, cases, threshold):
        """Equal odds keep their order."""
        answers, predictions, odds = (
            {str(i): value for i, value in enumerate(column)} for column in zip(*cases, strict=True)
        )
        data = dataset_of(**answers)
        one_by_one, version_1 = QuestionScoresV2(), QuestionScores()
        for question in scoring.questions_of(data):
            one_by_one.add(question, predictions[question["id"]], odds[question["id"]])
            version_1.add(question, predictions[question["id"]])
        assert version_1.totals() == scoring.evaluate_v1(data, predictions)
        one_by_one.abstain(threshold)
        best, raw = {}, scoring.get_raw_scores(data, predictions)
        has_answer = scoring.make_qid_to_has_ans(data)
        scoring.find_all_best_thresh(best, predictions, *raw, odds, has_answer)
        threshold = best["best_f1_thresh"] if threshold is None else threshold
        final = {i: "" if odds[i] > threshold else text for i, text in predictions.items()}
        assert one_by_one.totals() == scoring.evaluate_v2(data, final, None) | best
        numbers = range(len(cases))
        assert [one_by_one.abstains(n) for n in numbers] == [o > threshold for o in odds.values()]
        assert repr([one_by_one.odds(n) for n in numbers]) == repr(list(odds.values()))
        exact, f1 = (list(scores.values()) for scores in scoring.get_raw_scores(data, final))
        assert (list(one_by_one.exact), list(one_by_one.f1)) == (exact, f1)

    def test_a_question_without_prediction_is_skipped_and_logged(self, log):
        data = dataset_of(a=["x"], b=[])
        assert scoring.get_raw_scores(data, {"b": ""}) == ({"b": 1}, {"b": 1})
        assert scoring.evaluate_v2(data, {"b": ""}, None)["total"] == 1
        scoring.evaluate_v2(dataset_of(**dict.fromkeys("abcde", [])), {"b": ""}, None)
        assert log(logging.WARNING) == [
            "1 questions have no prediction and are skipped: a",
            "4 questions have no prediction and are skipped: a, c, d, ...",
        ]

    def test_the_best_threshold_only_counts_predicted_questions(self):
        scores, odds, has_answer = {"a": 1.0}, {"a": 0.0}, {"a": True, "b": True}
        assert scoring.find_best_thresh({"a": "x"}, scores, odds, has_answer) == (100.0, 0.0)
