"""Answers on the page: outcomes, positions and confidence."""

import math

import pytest

from albert.tasks.squad.scoring import ScoredAnswer
from albert.tasks.squad.view import sample_of

CONTEXT = "In 1900 a fire burnt; in 1900 the fire was put out by Ann."
YEAR = CONTEXT.rindex("1900")
TRUTH = {"text": "1900", "answer_start": YEAR}


def sample(answer, truths, is_known=True, nbest=(), **more):
    question = {"id": "q", "question": "When?", "answers": truths, "is_impossible": not truths}
    found = sample_of(CONTEXT, question, ScoredAnswer("q", answer, **more), nbest, is_known)
    assert found["passage"] == CONTEXT
    return found


@pytest.mark.parametrize(
    ("answer", "truths", "scores", "outcome"),
    [
        ("1900", [TRUTH], (1, 1.0), (True, 1.0, False, False)),
        ("in 1900", [TRUTH], (0, 2 / 3), (False, 0.6667, False, False)),
        ("", [TRUTH], (0, 0.0), (False, 0.0, False, True)),
        ("", [], (1, 1), (True, 1.0, True, True)),
        ("Ann", [], (0, 0), (False, 0.0, True, False)),
        (None, [TRUTH], (math.nan, math.nan), (None, None, False, False)),
    ],
)
def test_an_answer_has_its_outcome(answer, truths, scores, outcome):
    got = sample(answer, truths, exact=scores[0], f1=scores[1])
    keys = ("right", "score", "unanswerable", "abstained")
    assert tuple(got[key] for key in keys) == outcome
    # The true answers are not known.
    got = sample(answer, truths[:0], is_known=False)
    assert tuple(got[key] for key in keys[:3]) == (None, None, False)


def test_the_true_occurrence_or_the_first_is_marked():
    """Of several equal texts the true one, or else the first; -1 if it is not in the paragraph."""
    other = {"text": "Ann", "answer_start": CONTEXT.index("Ann")}
    for answer, truth, start in (("1900", TRUTH, YEAR), ("1900", other, 3), ("1901", TRUTH, -1)):
        assert sample(answer, [truth])["spans"] == [{"start": start, "text": answer}]
    assert sample("", [TRUTH])["spans"] == []
    # The file may be wrong, or have no offset.
    for offset, start in ((YEAR, YEAR), (1, 3), (-1, 3), (None, 3)):
        truths = sample("x", [{"text": "1900", "answer_start": offset}])["truths"]
        assert truths == [{"start": start, "text": "1900"}]
    assert sample("x", [{"text": "Ann"}])["truths"][0]["start"] == CONTEXT.index("Ann")


NBEST = [{"text": "1900", "probability": 0.75}, {"text": "Ann", "probability": 0.25}]


def test_confidence_is_the_probability_of_the_answer():
    no_answer = 1 / (1 + math.exp(-1.5))
    assert sample("1900", [TRUTH])["confidence"] is None
    assert sample("Ann", [TRUTH], nbest=NBEST)["confidence"] == 0.25
    assert sample("x", [TRUTH], nbest=NBEST)["confidence"] is None
    answered = sample("1900", [TRUTH], nbest=NBEST, odds=1.5)
    assert answered["confidence"] == pytest.approx(0.75 * (1 - no_answer), abs=1e-4)
    abstained = sample("", [TRUTH], nbest=NBEST, odds=1.5)
    assert abstained["confidence"] == pytest.approx(no_answer, abs=1e-4)
    assert abstained["odds"] == 1.5
    # As for a question that the model could not read.
    assert sample("", [], odds=1e6)["confidence"] == 1.0
    assert sample("", [], odds=-1e6)["confidence"] == 0.0
    many = [{"text": str(n), "probability": 0.1} for n in range(20)]
    assert sample("0", [TRUTH], nbest=many)["nbest"] == many[:5]
