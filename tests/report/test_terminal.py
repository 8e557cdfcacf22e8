"""Samples on the terminal, with and without colors."""

import io
import re

import numpy as np
import pytest

from albert.report import ONLY, terminal
from albert.report.terminal import COLOURED, PLAIN, lines_of, style_of_output, wrapped
from albert.tasks.classification.view import labels_view

ANNA, BUILT = {"start": 0, "text": "Anna"}, {"start": 0, "text": "Anna built it"}
SAMPLE = {
    **{"id": "q1", "question": "Who built it?", "answer": "Anna"},
    **{"passage": "Anna\tbuilt it;\x1b[31m then Anna left."},
    **{"spans": [ANNA], "truths": [ANNA, BUILT]},
    "nbest": [{"text": "Anna", "probability": 0.9}, {"text": "", "probability": 0.1}],
    **{"right": True, "score": 1.0, "confidence": 0.83, "odds": -1.5},
    **{"unanswerable": False, "abstained": False},
}


@pytest.fixture(autouse=True)
def width(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


def test_without_colors_brackets_mark_answers():
    assert list(lines_of(SAMPLE, PLAIN)) == [
        "q1  right  F1 100%  confidence 83%  log-odds of no answer -1.50",
        "  Who built it?",
        "  [{Anna] built it};?[31m then Anna left.",
        "  predicted  [Anna]",
        "  true       {Anna | Anna built it}",
        "  n-best      90%  Anna",
        "              10%  no answer",
        "",
    ]


def test_colors_say_the_same_and_neighbors_have_their_own_marks():
    code, plain = r"\x1b\[[\d;]+m", "\n".join(lines_of(SAMPLE, PLAIN))
    coloured = "\n".join(lines_of(SAMPLE, COLOURED))
    used = {*COLOURED.before.values(), *COLOURED.after.values()} - {COLOURED.before["wrong"]}
    assert {*re.findall(code, coloured)} == used
    assert re.sub(code, "", coloured) == re.sub(r"[{}]|\[(?!31m)|\]", "", plain)
    marks = [(0, 2, "answer"), (2, 4, "answer"), (5, 6, "answer"), (5, 9, "truth"), (7, 9, "truth")]
    assert list(wrapped("ab,c d ef", marks, 40, PLAIN)) == ["[ab][,c] [{d] ef}"]


def test_lines_fit_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    shares = {"long " * 12: 0.004, "": 1.0}
    nbest = [{"text": text, "probability": share} for text, share in shares.items()]
    unplaced = {"spans": [{"start": -1, "text": "x"}], "truths": [], "nbest": nbest}
    sample = {**SAMPLE, **unplaced, "passage": "word " * 30 + "x" * 100}
    lines = list(lines_of(sample, PLAIN))[1:]
    assert max(map(len, lines)) <= 40
    assert "".join(lines).count("x") == 100 and "".join(lines).count("word") == 30
    first = next(n for n, line in enumerate(lines) if line.startswith("  n-best       0%  long"))
    *wrapped, last = lines[first + 1 : -1]
    assert {line[:19] for line in wrapped} == {" " * 19} and last == f"{'100%':>17}  no answer"
    assert "".join(lines[first:]).count("long") == 12


def test_missing_answers_are_named():
    for answer, truths, unanswerable, predicted, true in (
        ("", [], True, "[no answer]", "no answer"),
        (None, [ANNA], False, "[no prediction]", "{Anna}"),
        ("x", [], False, "[x]", "not known"),
    ):
        changes = {"answer": answer, "truths": truths, "unanswerable": unanswerable, "spans": []}
        lines = list(lines_of({**SAMPLE, **changes, "right": None, "score": None}, PLAIN))
        assert f"  predicted  {predicted}" in lines and f"  true       {true}" in lines


def test_labels_options_and_numbers_are_shown_and_unknown_ones_named():
    labelled = {"id": "e1", "passage": None, "texts": ["one", "two"]}
    sample = {**labelled, "right": False, "confidence": 0.7, "truth": "no", "answer": "yes"}
    sample["probabilities"] = {"no": 0.3, "yes": 0.7}
    shares = ["  all labels  30%  no", "              70%  yes"]
    said = ["  predicted  yes", "  true       no", *shares, ""]
    first = "e1  wrong  confidence 70%"
    assert list(lines_of(sample, PLAIN)) == [first, "  one", "  two", *said]
    options = ["  no         one", "  yes        two"]
    assert list(lines_of({**sample, "passage": "text"}, PLAIN))[1:4] == ["  text", *options]
    sets = {"truth": ["no", "yes"], "answer": [], "score": 0.0}
    first, _, _, *said = list(lines_of({**sample, **sets}, PLAIN))
    assert first == "e1  wrong  F1 0%  confidence 70%"
    assert said[:2] == ["  predicted  no label", "  true       no, yes"]
    number = {**labelled, "right": None, "confidence": None, "truth": 1.0, "answer": 1.25}
    assert list(lines_of(number, PLAIN))[3:5] == ["  predicted  1.250", "  true       1.000"]
    outputs = {"label_ids": np.int64(1), "predictions": np.int32(0)}
    nan = np.float32("nan")
    text = [{"id": "e1", "passage": None, "texts": ["one"]}]
    output = {**outputs, "probabilities": np.array([nan, np.inf])}
    (sample,) = labels_view("T", text, [output], ["a", "b"], {}).samples
    shares = ["  all labels    ?  a", "                ?  b"]
    said = ["e1  wrong", "  one", "  predicted  a", "  true       b", *shares, ""]
    assert list(lines_of(sample, PLAIN)) == said
    (sample,) = labels_view("T", text, [{**outputs, "predictions": nan}], [None], {}).samples
    assert "  predicted  unknown" in list(lines_of(sample, PLAIN))
    unknown = {"nbest": [{**ANNA, "probability": None}], "confidence": None, "odds": None}
    assert "  n-best        ?  Anna" in list(lines_of({**SAMPLE, **unknown}, PLAIN))


def test_only_selects_samples_by_outcome():
    samples = [
        {"right": True, "unanswerable": True, "abstained": True},
        {"right": False, "unanswerable": True, "abstained": False},
        {"right": None},
    ]
    chosen = {only: [n for n, s in enumerate(samples) if fits(s)] for only, fits in ONLY.items()}
    some = {"wrong": [1], "right": [0], "unanswerable": [0, 1], "abstained": [0]}
    assert chosen == {"all": [0, 1, 2], **some}


def test_colors_are_used_on_capable_terminals(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(terminal.sys, "stdout", stream)
    capable = True, "", "xterm"
    others = (False, "", "xterm"), (True, "1", "xterm"), (True, "", "dumb")
    for is_terminal, no_color, term in (capable, *others):
        monkeypatch.setattr(stream, "isatty", lambda is_terminal=is_terminal: is_terminal)
        monkeypatch.setenv("NO_COLOR", no_color)
        monkeypatch.setenv("TERM", term)
        plain = (is_terminal, no_color, term) in others
        assert style_of_output() is (PLAIN if plain else COLOURED)
