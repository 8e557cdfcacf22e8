"""Answers on the page: outcomes, positions and confidence."""

from __future__ import annotations

import math

import pytest

from albert.tasks.squad.scoring import get_raw_scores
from albert.tasks.squad.view import answers_view

CONTEXT = "In 1900 a fire burnt; in 1900 the fire was put out by Ann."
YEAR = CONTEXT.rindex("1900")


def view_of(answer, truths, raw=True, nbest=(), odds=None):
    """Returns the only sample of a view of one question."""
    question = {"id": "q", "question": "When?", "answers": truths, "is_impossible": not truths}
    articles = [{"paragraphs": [{"context": CONTEXT, "qas": [question]}]}]
    answers = {} if answer is None else {"q": answer}
    scored = get_raw_scores(articles, answers) if raw else None
    lists = [("q", nbest)] if nbest else []
    view = answers_view("t", articles, answers, {}, scored, lists, odds and {"q": odds})
    (sample,) = view["samples"]
    assert view["passages"][sample["passage"]] == CONTEXT
    return sample


TRUTH = {"text": "1900", "answer_start": YEAR}


@pytest.mark.parametrize(
    ("answer", "truths", "outcome"),
    [
        ("1900", [TRUTH], (True, 1.0, False, False)),
        ("in 1900", [TRUTH], (False, 0.6667, False, False)),
        ("", [TRUTH], (False, 0.0, False, True)),
        ("", [], (True, 1.0, True, True)),
        ("Ann", [], (False, 0.0, True, False)),
        (None, [TRUTH], (None, None, False, False)),
    ],
)
def test_an_answer_has_its_outcome(answer, truths, outcome):
    sample = view_of(answer, truths)
    keys = ("right", "score", "unanswerable", "abstained")
    assert tuple(sample[key] for key in keys) == outcome
    # The true answers are not known.
    sample = view_of(answer, truths[:0], raw=False)
    assert tuple(sample[key] for key in keys[:3]) == (None, None, False)


def test_the_true_occurrence_or_the_first_is_marked():
    """Of several equal texts the true one, or else the first; -1 if it is not in the paragraph."""
    assert view_of("1900", [TRUTH])["spans"] == [(YEAR, "1900")]
    other = {"text": "Ann", "answer_start": CONTEXT.index("Ann")}
    assert view_of("1900", [other])["spans"] == [(3, "1900")]
    assert view_of("1901", [TRUTH])["spans"] == [(-1, "1901")]
    assert view_of("", [TRUTH])["spans"] == []
    assert view_of("x", [TRUTH])["truths"] == [(YEAR, "1900")]
    # The file is wrong, or has no offset.
    for wrong in ({"answer_start": 1}, {"answer_start": -1}, {}):
        assert view_of("x", [{"text": "1900", **wrong}])["truths"] == [(3, "1900")]


NBEST = [{"text": "1900", "probability": 0.75}, {"text": "Ann", "probability": 0.25}]


def test_confidence_is_the_probability_of_the_answer():
    no_answer = 1 / (1 + math.exp(-1.5))
    assert view_of("1900", [TRUTH])["confidence"] is None
    assert view_of("Ann", [TRUTH], nbest=NBEST)["confidence"] == 0.25
    assert view_of("x", [TRUTH], nbest=NBEST)["confidence"] is None
    answered = view_of("1900", [TRUTH], nbest=NBEST, odds=1.5)
    assert answered["confidence"] == pytest.approx(0.75 * (1 - no_answer), abs=1e-4)
    abstained = view_of("", [TRUTH], nbest=NBEST, odds=1.5)
    assert abstained["confidence"] == pytest.approx(no_answer, abs=1e-4)
    assert abstained["odds"] == 1.5
    # As for a question that the model could not read.
    assert view_of("", [], odds=1e6)["confidence"] == 1.0
    assert view_of("", [], odds=-1e6)["confidence"] == 0.0
    many = [{"text": str(n), "probability": 0.1} for n in range(20)]
    assert view_of("0", [TRUTH], nbest=many)["nbest"] == [[str(n), 0.1] for n in range(5)]
