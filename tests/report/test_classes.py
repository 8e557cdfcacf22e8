"""Scores of each label and the confusion matrix, by scikit-learn and by counts made by hand."""

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

from albert.report import terminal
from albert.report.classes import Classes
from albert.report.predictions import write_samples
from albert.report.spans import span_scores, spans_view
from albert.tasks.classification.view import labels_view
from tests.helpers.entities import spans_in

NAMES = ["a", "b\x1b", "never"]


def view(truths, answers, names=NAMES):
    texts = [{"id": str(n), "passage": None, "texts": ["x"]} for n in range(len(truths))]
    share = np.full(len(names), 0.25)
    outputs = [
        {"label_ids": truth, "predictions": answer, "probabilities": share}
        for truth, answer in zip(truths, answers, strict=True)
    ]
    return labels_view("T", texts, outputs, names, {})


@pytest.mark.parametrize("shape", [(200,), (200, 3)], ids=["one label", "several"])
def test_scores_and_the_matrix_are_those_of_scikit_learn(shape):
    rng = np.random.default_rng(7)
    truths, answers = rng.integers(0, 2, shape), rng.integers(0, 2, shape)
    classes = Classes(view(truths, answers).samples)
    rows = precision_recall_fscore_support(truths, answers, labels=range(3), zero_division=0)
    names = "precision", "recall", "f1", "support"
    for label, *values in zip(NAMES, *rows, strict=True):
        assert classes.scores()[label] == pytest.approx(dict(zip(names, values, strict=True)))
    matrix = [[*row.values()] for row in classes.confusion().values()]
    expected = (
        confusion_matrix(truths, answers, labels=range(3)).tolist() if len(shape) == 1 else []
    )
    assert matrix == expected
    assert ("confusion" in classes.as_json()) == bool(expected)


def test_spans_are_right_missed_spurious_or_have_a_wrong_label():
    true = [spans_in("B-PER I-PER O B-LOC O B-LOC"), spans_in("O B-ORG"), []]
    predicted = [spans_in("B-PER I-PER O B-PER O O"), spans_in("B-ORG I-ORG"), spans_in("B-LOC")]
    texts = dict.fromkeys("123", "")
    classes = Classes(spans_view("T", texts, predicted, true, {}).samples)
    names = "support", "right", "wrong_label", "missed", "spurious"
    counts = {label: [row[n] for n in names] for label, row in classes.scores().items()}
    assert counts == {"LOC": [2, 0, 1, 1, 1], "ORG": [1, 0, 0, 1, 1], "PER": [1, 1, 0, 0, 0]}
    # The other scores are those of the run, which are seqeval's.
    own = span_scores(predicted, true)
    for label, row in classes.scores().items():
        assert {n: row[n] for n in ("precision", "recall", "f1")} == pytest.approx(
            {n: own[f"{label}_{n}"] for n in ("precision", "recall", "f1")}
        )
    assert classes.confusion() == {}


def test_a_run_ends_with_the_scores_of_its_labels(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    write_samples(str(tmp_path), view([0, 0, 1, 1], [0, 1, 1, 1]))
    *_, last = lines = list(terminal.samples_at_end(str(tmp_path)))
    assert lines[-9:-1] == [
        "label  precision  recall     f1  support",
        "a          1.000   0.500  0.667        2",
        "b?         0.667   1.000  0.800        2",
        "never      0.000   0.000  0.000        0",
        "true, by predicted  a  b?  never",
        "a                   1   1      0",
        "b?                  0   2      0",
        "never               0   0      0",
    ]
    assert last.startswith("All 4 samples")
    assert len([*Classes(view([0], [0]).samples).lines(30)]) == 4, "a wide matrix is not shown"
    write_samples(str(tmp_path), view([0], [0], [f"{n:02}" for n in range(21)]))
    assert "evaluate" in list(terminal.samples_at_end(str(tmp_path)))[-2]


def test_answers_and_numbers_have_no_classes():
    for sample in ({"question": "?", "spans": [], "truths": []}, {"truth": 1.0, "answer": 2.0}):
        assert Classes([sample, sample]).as_json() == {}
        assert [*Classes([sample]).lines(80)] == []
