"""Scores of files, the bootstrap of a difference, and the spread of runs."""

from __future__ import annotations

import json

import numpy as np
import pytest

from albert.core.errors import UserError
from albert.tasks.squad.comparison import (
    Predictions,
    QuestionFile,
    bootstrap_interval,
    compare,
)


def test_the_interval_is_that_of_scipy():
    """For differences like those of F1: mostly none, some whole, some in between."""
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(3)
    differences = rng.choice([0.0, 0, 0, 100, -100, 50, -40, 66.7], size=400)
    interval = bootstrap_interval(differences, seed=1, resamples=20_000)
    theirs = stats.bootstrap(
        (differences,), np.mean, n_resamples=20_000, method="percentile", random_state=rng
    ).confidence_interval
    # 20,000 draws of a mean with a standard error of about 2.8 give quantiles within about 0.05.
    assert interval == pytest.approx((theirs.low, theirs.high), abs=0.25)
    assert interval[1] - interval[0] > 5
    assert bootstrap_interval(differences, 1) == bootstrap_interval(differences, 1)
    assert bootstrap_interval(differences, 1) != bootstrap_interval(differences, 2)


def test_the_bootstrap_is_over_paired_questions():
    """Systems that differ on one question of many have a narrower interval than their scores."""
    first = {str(i): float(i % 2) for i in range(1000)}
    second = {**first, "0": 1.0}
    found = compare(first, second, seed=1)
    assert found.mean == pytest.approx(0.1)
    assert (found.better, found.worse) == (["0"], [])
    assert 0 == found.low < found.high < 0.5
    assert compare(first, first, seed=1)[:3] == (0, 0, 0)
    # Questions of only one system do not count.
    assert compare({"a": 1.0, "b": 0.0}, {"b": 1.0, "c": 0.0}, seed=1)[:4] == (100,) * 3 + (["b"],)


@pytest.fixture
def questions(tmp_path):
    """Returns three questions: with the answer "cat", without an answer, and without a
    prediction."""
    true = {"a": [{"text": "cat"}], "b": [], "c": [{"text": "dog"}]}
    qas = [{"id": i, "question": "?", "answers": texts} for i, texts in true.items()]
    qas[1]["is_impossible"] = True
    path = tmp_path / "dev.json"
    path.write_text(json.dumps({"data": [{"paragraphs": [{"context": "", "qas": qas}]}]}))
    return QuestionFile(str(path))


def test_odds_of_another_run_are_refused(questions):
    """Abstaining by odds is tested in tests/test_evaluate.py."""
    with pytest.raises(UserError, match=r"^1 questions .* the first is b; pass files"):
        Predictions({"a": "cat", "b": ""}, {"a": 0.5}).check(questions)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ([], "must be an object"),
        ({"a": 1}, "question a has no text: 1"),
        ({"x": "cat"}, "none of its ids is a question of"),
    ],
)
def test_a_file_without_predictions_is_refused(questions, tmp_path, content, problem):
    path = tmp_path / "predictions.json"
    path.write_text(json.dumps(content))
    with pytest.raises(UserError, match=problem):
        questions.read_predictions(str(path))
    path.write_text('{"a": NaN}')
    with pytest.raises(UserError, match="question a has no number: nan"):
        questions.read_odds(str(path))
