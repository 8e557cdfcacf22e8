"""Exact match and F1, by hand and by the official script, and the interval of a difference."""

import logging
from types import SimpleNamespace

import hypothesis
import pytest
from hypothesis import strategies as st

from albert import squad_utils
from albert.tasks.squad.comparison import compare
from albert.tasks.squad.predictions import NO_FEATURES
from albert.tasks.squad.scoring import Scorer, ScorerV2, normalize_answer_v1
from tests.helpers.squad import official_script

PARTS = ["the", "A", "an", "Theatre", "cat", ".", "-", " ", "\t", "\u00a0", "É", "ß", "“", "'", "_"]


@hypothesis.given(st.lists(st.sampled_from(PARTS)).map("".join))
@hypothesis.example("THE A-Team: don't (stop)! ÉCOLE Straße a_b the_c $1,000.50")
def test_normalization_is_the_official_scripts(text):
    assert normalize_answer_v1(text) == official_script().normalize_answer(text)


def dataset_of(**answers):
    """Returns a question for each id, in two articles: its answers' texts, or None for null."""
    questions = [
        {"id": i, "answers": None if texts is None else [{"text": text} for text in texts]}
        for i, texts in answers.items()
    ]
    half = len(questions) // 2
    parts = questions[:half], questions[half:]
    return [{"paragraphs": [{"context": "", "qas": part}]} for part in parts]


def scored(scorer, dataset, predictions, odds=None):
    for article in dataset:
        for question in article["paragraphs"][0]["qas"]:
            qas_id = question["id"]
            scorer.update(question, predictions.get(qas_id), (odds or {}).get(qas_id))
    scorer.log_missing()
    return scorer


class TestVersion1:
    def test_scores_are_means_in_percent(self, log):
        # F1: 1; the better of 1/2 and 2/3; 0. A prediction of another question does not count.
        true = {"a": ["cat"], "b": ["big dog", "dog"], "c": ["old house"]}
        guesses = {"a": "The cat!", "b": "small dog", "c": "nothing", "x": "dog"}
        for answers, predictions, exact, f1 in (
            (true, guesses, 100 / 3, 100 * (1 + 2 / 3) / 3),
            # Both texts are empty after normalization, and neither is right.
            ({"a": ["cat"], "b": ["the"]}, {"a": "", "b": ""}, 50, 0),
            # No answers at all.
            ({"a": ["cat"], "b": [], "c": None}, dict.fromkeys("abc", "cat"), 100 / 3, 100 / 3),
        ):
            scores = squad_utils.evaluate_v1(dataset_of(**answers), predictions)
            assert scores == pytest.approx({"exact_match": exact, "f1": f1})
        assert log(logging.WARNING) == []

    def test_a_missing_prediction_scores_0_with_a_warning(self, log):
        dataset = dataset_of(q1=["cat"], q2=["cat"])
        del dataset[0]["paragraphs"][0]["qas"][0]["answers"]
        scores = squad_utils.evaluate_v1(dataset, {"q2": "cat"})
        assert scores == {"exact_match": 50.0, "f1": 50.0}
        assert log(logging.WARNING) == ["1 questions have no prediction and score 0: q1"]
        # Even if the true answer has no words.
        assert scored(Scorer(), dataset_of(a=["the"]), {}).by_question() == ({"a": 0}, {"a": 0})


WORDS = st.lists(st.sampled_from(["the", "a", "Rhine", "rhine", "in", "1998", "!", ""]), max_size=4)
TEXTS = WORDS.map(" ".join)


class TestVersion2:
    @hypothesis.given(
        st.lists(
            st.tuples(
                st.lists(TEXTS, max_size=3),
                TEXTS,
                st.floats(-5, 5) | st.sampled_from([-1.5, 0.1, NO_FEATURES]),
            ),
            min_size=1,
        ),
        st.sampled_from([None, 0.1, 1.0]),
    )
    @hypothesis.settings(max_examples=50)
    def test_scores_are_the_official_scripts(self, cases, threshold):
        metrics = official_script()
        answers, predictions, odds = (
            {str(i): value for i, value in enumerate(column)} for column in zip(*cases, strict=True)
        )
        data = dataset_of(**answers)
        examples = [
            SimpleNamespace(qas_id=i, answers=[{"text": text} for text in texts])
            for i, texts in answers.items()
        ]
        # The script computes the best scores only with a file of probabilities.
        plain = metrics.squad_evaluate(examples, predictions)
        best = {name: plain.pop(name) for name in list(plain) if name.startswith("best")}
        raw = metrics.get_raw_scores(examples, predictions)
        has_answer = {i: bool(texts) for i, texts in answers.items()}
        metrics.find_all_best_thresh(best, predictions, *raw, odds, has_answer)
        scorer = scored(ScorerV2(), data, predictions, odds)
        assert scorer.totals() == pytest.approx(dict(plain))
        ours = squad_utils.get_raw_scores(data, predictions)
        assert ours == raw == scorer.by_question()
        # A run without a threshold takes the best one, and scores the answers that it writes.
        scorer.abstain(threshold)
        limit = best["best_f1_thresh"] if threshold is None else threshold
        final = {i: "" if odds[i] > limit else text for i, text in predictions.items()}
        rewritten = metrics.squad_evaluate(examples, final)
        expected = {name: rewritten[name] for name in plain} | best
        assert scorer.totals() == pytest.approx(expected)
        assert {one.qas_id: one.answer for one in scorer.answers} == final
        assert repr([one.odds for one in scorer.answers]) == repr(list(odds.values()))
        # As with the script's --na-prob-file and --na-prob-thresh.
        scorer = scored(ScorerV2(is_official=True), data, predictions, odds)
        scorer.abstain(limit)
        at_limit = metrics.squad_evaluate(examples, predictions, odds, limit)
        assert scorer.totals() == pytest.approx({name: at_limit[name] for name in plain} | best)

    def test_a_question_without_prediction_is_skipped_and_logged(self, log):
        data = dataset_of(a=["x"], b=[])
        assert squad_utils.get_raw_scores(data, {"b": ""}) == ({"b": 1}, {"b": 1})
        assert log(logging.WARNING) == []
        assert scored(ScorerV2(), data, {"b": ""}).totals()["total"] == 1
        scored(ScorerV2(), dataset_of(**dict.fromkeys("abcde", [])), {"b": ""})
        assert log(logging.WARNING) == [
            "1 questions have no prediction and are skipped: a",
            "4 questions have no prediction and are skipped: a, c, d, ...",
        ]
        scores, odds, has_answer = {"a": 1.0}, {"a": 0.0}, {"a": True, "b": True}
        assert squad_utils.find_best_thresh({"a": "x"}, scores, odds, has_answer) == (100.0, 0.0)


def test_differences_are_those_of_paired_questions():
    """Systems that differ on one question of many have a narrower interval than their scores."""
    first = {str(i): float(i % 2) for i in range(1000)}
    second = {**first, "0": 1.0}
    difference = compare(first, second)
    assert difference.mean == pytest.approx(0.1)
    assert (difference.better, difference.worse) == (["0"], [])
    # 1.96 standard errors: the variance of the differences is 100 ** 2 * 0.001 * 0.999.
    half = 1.96 * 100 * (0.001 * 0.999 / 1000) ** 0.5
    assert difference[1:3] == pytest.approx((0.1 - half, 0.1 + half))
    assert compare(first, first)[:3] == (0, 0, 0)
    # Questions of only one system do not count.
    assert compare({"a": 1.0, "b": 0.0}, {"b": 1.0, "c": 0.0})[:4] == (100,) * 3 + (["b"],)
