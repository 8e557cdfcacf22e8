"""Samples on the terminal, with and without colors; and the page as a file."""

from __future__ import annotations

import io
import json
import re

import numpy as np
import pytest

from albert.core.errors import UserError
from albert.report import ONLY, terminal
from albert.report.page import read_first_samples, read_page, rounded, write_page
from albert.report.terminal import COLOURED, PLAIN, lines_of, style_of_output, wrapped
from albert.tasks.classification.view import labels_view

VIEW = {"kind": "answers", "passages": ["Anna\tbuilt it;\x1b[31m then Anna left."], "labels": []}
SAMPLE = {
    **{"id": "q1", "passage": 0, "question": "Who built it?", "answer": "Anna"},
    **{"spans": [(0, "Anna")], "truths": [(0, "Anna"), (0, "Anna built it")]},
    **{"nbest": [["Anna", 0.9], ["", 0.1]]},
    **{"right": True, "score": 1.0, "confidence": 0.83, "odds": -1.5},
    **{"unanswerable": False, "abstained": False},
}


@pytest.fixture(autouse=True)
def width(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


def test_without_colors_brackets_mark_answers():
    assert list(lines_of(VIEW, SAMPLE, PLAIN)) == [
        "q1  right  F1 100%  confidence 83%  log-odds of no answer -1.50",
        "  Who built it?",
        "  [{Anna] built it};?[31m then Anna left.",
        "  predicted  [Anna]",
        "  true       {Anna | Anna built it}",
        "  n-best      90%  Anna",
        "              10%  no answer",
        "",
    ]


def test_colors_say_the_same():
    """Control codes in a text do not act on the terminal."""
    coloured = "\n".join(lines_of(VIEW, SAMPLE, COLOURED))
    codes = re.findall(r"\x1b\[[\d;]+m", coloured)
    of_wrong = {COLOURED.before["wrong"]}
    assert set(codes) == {*COLOURED.before.values(), *COLOURED.after.values()} - of_wrong
    plain = "\n".join(lines_of(VIEW, SAMPLE, PLAIN))
    without = re.sub(r"\x1b\[[\d;]+m", "", coloured)
    assert without == re.sub(r"[{}]|\[(?!31m)|\]", "", plain)


def test_parts_next_to_each_other_have_their_own_marks():
    """Parts that overlap, such as several true answers, share theirs."""
    marks = [(0, 2, "answer"), (2, 4, "answer"), (5, 6, "answer"), (5, 9, "truth"), (7, 9, "truth")]
    assert list(wrapped("ab,c d ef", marks, 40, PLAIN)) == ["[ab][,c] [{d] ef}"]


def test_lines_fit_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    view = {**VIEW, "passages": ["word " * 30 + "x" * 100]}
    nbest = [["long " * 12, 0.004], ["", 1.0]]
    sample = {**SAMPLE, "spans": [(-1, "x")], "truths": [], "nbest": nbest}
    lines = list(lines_of(view, sample, PLAIN))[1:]
    assert max(map(len, lines)) <= 40
    assert "".join(lines).count("x") == 100 and "".join(lines).count("word") == 30
    first = next(n for n, line in enumerate(lines) if line.startswith("  n-best       0%  long"))
    *wrapped, last = lines[first + 1 : -1]
    assert {line[:19] for line in wrapped} == {" " * 19} and last == f"{'100%':>17}  no answer"
    assert "".join(lines[first:]).count("long") == 12


def test_missing_answers_are_named():
    for answer, truths, unanswerable, predicted, true in (
        ("", [], True, "[no answer]", "no answer"),
        (None, [(0, "Anna")], False, "[no prediction]", "{Anna}"),
        ("x", [], False, "[x]", "not known"),
    ):
        found = {"answer": answer, "truths": truths, "unanswerable": unanswerable, "spans": []}
        lines = list(lines_of(VIEW, {**SAMPLE, **found, "right": None, "score": None}, PLAIN))
        assert f"  predicted  {predicted}" in lines and f"  true       {true}" in lines


def test_labels_options_and_numbers_are_shown():
    labelled = {"id": "e1", "passage": None, "texts": ["one", "two"]}
    sample = {**labelled, "right": False, "confidence": 0.7, "truth": 0, "answer": 1}
    sample["probabilities"] = [0.3, 0.7]
    view = {"kind": "labels", "labels": ["no", "yes"], "passages": ["text"]}
    shares = ["  all labels  30%  no", "              70%  yes"]
    said = ["  predicted  yes", "  true       no", *shares, ""]
    first = "e1  wrong  confidence 70%"
    assert list(lines_of(view, sample, PLAIN)) == [first, "  one", "  two", *said]
    options = ["  no         one", "  yes        two"]
    view["kind"] = "options"
    assert list(lines_of(view, {**sample, "passage": 0}, PLAIN))[1:4] == ["  text", *options]
    view["kind"], sets = "sets", {"truth": [0, 1], "answer": [], "score": 0.0}
    first, _, _, *said = list(lines_of(view, {**sample, **sets}, PLAIN))
    assert first == "e1  wrong  F1 0%  confidence 70%"
    assert said[:2] == ["  predicted  no label", "  true       no, yes"]
    number = {**labelled, "right": None, "confidence": None, "truth": 1.0, "answer": 1.25}
    view["kind"] = "numbers"
    assert list(lines_of(view, number, PLAIN))[3:5] == ["  predicted  1.250", "  true       1.000"]


def test_unknown_numbers_are_named():
    """A model with NaN weights still has predictions."""
    outputs = {"label_ids": np.int64(1), "predictions": np.int32(0)}
    nan = np.float32("nan")
    text = [{"id": "e1", "passage": None, "texts": ["one"]}]
    output = {**outputs, "probabilities": np.array([nan, np.inf])}
    view = labels_view("T", text, [output], ["a", "b"], {"f1": nan})
    assert view["scores"] == {"f1": None}
    (sample,) = view["samples"]
    shares = ["  all labels    ?  a", "                ?  b"]
    said = ["e1  wrong", "  one", "  predicted  a", "  true       b", *shares, ""]
    assert list(lines_of(view, sample, PLAIN)) == said
    numbers = labels_view("T", text, [{**outputs, "predictions": nan}], [None], {})
    assert "  predicted  unknown" in list(lines_of(numbers, numbers["samples"][0], PLAIN))
    nbest = {**SAMPLE, "nbest": [["Anna", None]], "confidence": None, "odds": None}
    assert "  n-best        ?  Anna" in list(lines_of(VIEW, nbest, PLAIN))


def test_only_selects_samples_by_outcome():
    samples = [
        {"right": True, "unanswerable": True, "abstained": True},
        {"right": False, "unanswerable": True, "abstained": False},
        {"right": None},
    ]
    found = {only: [n for n, s in enumerate(samples) if fits(s)] for only, fits in ONLY.items()}
    some = {"wrong": [1], "right": [0], "unanswerable": [0, 1], "abstained": [0]}
    assert found == {"all": [0, 1, 2], **some}


def test_colors_are_used_on_capable_terminals(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(terminal.sys, "stdout", stream)
    for is_terminal, no_color, term, style in (
        (True, "", "xterm", COLOURED),
        (False, "", "xterm", PLAIN),
        (True, "1", "xterm", PLAIN),
        (True, "", "dumb", PLAIN),
    ):
        monkeypatch.setattr(stream, "isatty", lambda is_terminal=is_terminal: is_terminal)
        monkeypatch.setenv("NO_COLOR", no_color)
        monkeypatch.setenv("TERM", term)
        assert style_of_output() is style


WHOLE = {
    "kind": "answers",
    "title": "a </script><!-- <script> & \u2028 {{data}}",
    "samples": [{"id": "half a character \ud800", "text": "ä 😀"}],
}


def test_a_written_view_is_read_back(tmp_path):
    """Nothing in a text is markup, and the page loads nothing from any address."""
    path = tmp_path / "predictions.html"
    write_page(str(path), WHOLE)
    assert read_page(str(path)) == WHOLE
    page = path.read_text(encoding="utf-8")
    data = page.partition('id="data">')[2].partition("</script>")[0]
    assert "<" not in data and json.loads(data) == WHOLE
    for what in ("http:", "https:", "url(", "@import", "src=", "href="):
        assert what not in page.replace("http://www.w3.org/2000/svg", "")
    # Numbers that JSON does not have.
    known = [rounded(x) for x in (None, float("nan"), float("-inf"), 0.123456)]
    assert known == [None, None, None, 0.1235]


@pytest.mark.parametrize("count", [0, 2, 200])
def test_the_first_samples_are_read_alone(tmp_path, count):
    """Iterators are written as lists are."""
    samples = [{"id": f"<{n}>", "passage": n // 3 or None} for n in range(150)]
    view = {**WHOLE, "scores": {}, "passages": [f"<p>{n}" for n in range(60)], "samples": samples}
    write_page(str(tmp_path / "lists"), view)
    streams = {name: iter(view[name]) for name in ("passages", "samples")}
    write_page(str(tmp_path / "streams"), {**view, **streams})
    assert (tmp_path / "streams").read_bytes() == (tmp_path / "lists").read_bytes()
    first, number = read_first_samples(str(tmp_path / "lists"), count)
    assert number == 150 and first["samples"] == samples[:count]
    assert first["passages"] == {n: f"<p>{n}" for n in range(1, -(-count // 3)) if n < 50}
    assert {name: first[name] for name in ("kind", "title", "scores")} == {
        name: view[name] for name in ("kind", "title", "scores")
    }


def test_another_page_is_an_error(tmp_path):
    path, script = tmp_path / "predictions.html", b'<script type="application/json" id="data">'
    for content in (b"<html></html>", b"\xff", script + b"[]</script>"):
        path.write_bytes(content)
        for read in (read_page, lambda path: read_first_samples(path, 3)):
            with pytest.raises(UserError, match="is not a page of predictions"):
                read(str(path))
    with pytest.raises(UserError, match="none.html cannot be read: No such file"):
        read_page(str(tmp_path / "none.html"))
