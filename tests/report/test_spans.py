"""Spans with labels: their scores, and their view on the terminal."""

import pytest

from albert.report.spans import Span, prediction_of, span_scores, spans_view
from albert.report.terminal import COLOURED, PLAIN, lines_of
from tests.helpers.entities import spans_in

TRUE = (
    *("O O O B-MISC I-MISC I-MISC O", "B-PER I-PER O", "B-LOC B-LOC I-LOC O B-PER"),
    *("I-PER I-LOC O", "S-LOC O B-PER E-PER", "O O"),
)
FOUND = (
    *("O O B-MISC I-MISC I-MISC I-MISC O", "B-PER I-PER O", "B-LOC I-LOC I-LOC O B-PER"),
    *("I-PER I-PER O", "B-LOC O I-PER I-PER", "B-ORG O"),
)
# From `seqeval.metrics.classification_report` of seqeval 1.2.2: precision, recall and F1.
OF_SEQEVAL = {
    "": (0.5, 0.4444444444444444, 0.47058823529411764),
    "LOC_": (0.5, 0.25, 0.3333333333333333),
    "MISC_": (0.0, 0.0, 0.0),
    "ORG_": (0.0, 0.0, 0.0),
    "PER_": (0.75, 0.75, 0.75),
}


def test_scores_are_those_of_seqeval():
    names = "precision", "recall", "f1"
    expected = {
        prefix + name: score
        for prefix, scores in OF_SEQEVAL.items()
        for name, score in zip(names, scores, strict=True)
    }
    assert span_scores(map(spans_in, FOUND), map(spans_in, TRUE)) == pytest.approx(expected)
    assert span_scores([[]], [[]]) == dict.fromkeys(names, 0.0)


TEXT = "Anna Bell left Rome."
PERSON, PLACE = Span(0, 9, "Anna Bell", "PER", 0.9), Span(15, 19, "Rome", "LOC", 0.42)
WRONG = PLACE._replace(label="PER")


def sample_of(text: str, *found: Span, truths=(PERSON, PLACE)) -> dict:
    truths = [truth._replace(probability=None) for truth in truths]
    (sample,) = spans_view("T", {"line 1": text}, [found], [truths], {}).samples
    return sample


def test_a_text_has_its_outcome():
    for predicted, right, score, confidence in (
        ((PERSON, PLACE), True, 1.0, 0.42),
        ((PERSON, WRONG), False, 0.5, 0.42),
        ((PERSON,), False, 0.6667, 0.9),
        ((), False, 0.0, None),
    ):
        sample = sample_of(TEXT, *predicted)
        assert (sample["right"], sample["score"]) == (right, score)
        assert sample["confidence"] == confidence
        assert sample["passage"] == TEXT and prediction_of(sample) == [*predicted]
    precise = PLACE._replace(probability=1 / 3)
    sample = sample_of(TEXT, precise)
    assert prediction_of(sample) == [precise] and sample["confidence"] == 0.3333
    sample = sample_of("", truths=())
    assert (sample["right"], sample["score"], sample["answer"]) == (True, 1.0, "")


def test_predicted_and_true_spans_are_marked_on_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    sample = sample_of(TEXT, PERSON, WRONG)
    assert list(lines_of(sample, PLAIN)) == [
        "line 1  wrong  F1 50%  confidence 42%",
        "  [{Anna Bell}] left [{Rome}].",
        "  predicted  [Anna Bell (PER) | Rome (PER)]",
        "  true       {Anna Bell (PER) | Rome (LOC)}",
        "  confidence  90%  Anna Bell (PER)",
        "              42%  Rome (PER)",
        "",
    ]
    _, passage, *_ = lines_of(sample, COLOURED)
    assert "\33[7m\33[4mAnna Bell\33[24m\33[27m left" in passage
    lines = list(lines_of(sample_of("None here.", truths=()), PLAIN))
    assert lines[2:4] == ["  predicted  [none]", "  true       none"]
