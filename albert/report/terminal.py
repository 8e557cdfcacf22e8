"""Display of predictions on the terminal, in color or, without color, with brackets."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from albert.core.text import printable
from albert.distributed import launcher
from albert.report import PAGE
from albert.report.classes import Classes
from albert.report.predictions import Sample, read_samples
from albert.report.spans import texts_of_spans

_AT_END = 3  # samples that a run shows at its end
_LABELS_AT_END = 20  # at most, to show the scores of each
_WIDEST = 100
_INDENT = "  "
_NAME = 11  # width of the column of names, such as "predicted"


class Style(NamedTuple):
    """Marks that highlight parts of a text, by kind: those before a part and those after it."""

    before: dict[str, str]
    after: dict[str, str]

    def of(self, kind: str, text: str) -> str:
        """Returns a text with the marks of its kind."""
        return f"{self.before.get(kind, '')}{text}{self.after.get(kind, '')}"

    def change(self, before: set[str], after: set[str]) -> str:
        """Returns the marks between two neighboring parts, each of which may have several kinds."""
        ends = [self.after[kind] for kind in sorted(before - after, reverse=True)]
        return "".join(ends + [self.before[kind] for kind in sorted(after - before)])


# Codes that switch a mark on and off.
_CODES = {"answer": (7, 27), "truth": (4, 24), "title": (1, 22), "faint": (2, 22)}
_CODES |= {"right": (32, 39), "wrong": (31, 39)}
COLOURED = Style(
    {kind: f"\33[{on}m" for kind, (on, _) in _CODES.items()},
    {kind: f"\33[{off}m" for kind, (_, off) in _CODES.items()},
)
PLAIN = Style({"answer": "[", "truth": "{"}, {"answer": "]", "truth": "}"})


def style_of_output() -> Style:
    """Returns colors if standard output is a terminal that shows colors, otherwise brackets.

    See https://no-color.org. A worker's output looks like a terminal even if mpirun writes it to a
    file.
    """
    plain = (
        launcher.started.launcher or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    )
    return COLOURED if sys.stdout.isatty() and not plain else PLAIN


def samples_at_end(folder: str) -> Iterator[str]:
    """Yields a run's first samples, the scores of its labels, and a line with the page's path."""
    style, count, classes = style_of_output(), 0, Classes()
    for count, sample in enumerate(read_samples(folder), start=1):
        classes.add(sample)
        if count <= _AT_END:
            yield from lines_of(sample, style)
    if len(classes.labels) <= _LABELS_AT_END:
        yield from classes.lines(width_of_output())
    else:
        yield f"`albert evaluate {folder}` shows the scores of all {len(classes.labels)} labels."
    yield f"All {count} samples are in {os.path.join(folder, PAGE)}; open it in a browser."


def width_of_output() -> int:
    """Returns the number of columns to use: those of the terminal, up to a limit."""
    return min(shutil.get_terminal_size().columns, _WIDEST)


def lines_of(sample: Sample, style: Style) -> Iterator[str]:
    """Yields the lines that show a sample, followed by an empty line."""
    width = width_of_output()
    lines = _span_lines(sample) if "spans" in sample else _label_lines(sample)
    yield style.of("faint", printable(sample["id"])) + "  " + "  ".join(_facts(sample, style))
    for kind, name, text, marks in lines:
        text, name = printable(text), printable(name)
        head = f"{name:<{_NAME}}" if name else ""
        for number, line in enumerate(wrapped(text, marks, width - len(head) - 2, style)):
            yield _INDENT + (" " * len(head) if number else head) + style.of(kind, line)
    yield ""


def _facts(sample: Sample, style: Style) -> Iterator[str]:
    if sample["right"] is not None:
        word = "right" if sample["right"] else "wrong"
        yield style.of(word, word)
    has_f1 = "spans" in sample or isinstance(sample["answer"], list)
    if has_f1 and sample["score"] is not None:
        yield f"F1 {sample['score']:.0%}"
    if sample["confidence"] is not None:
        yield f"confidence {sample['confidence']:.0%}"
    if sample.get("odds") is not None:
        yield f"log-odds of no answer {sample['odds']:.2f}"


# The kind of a line, the name before it, its text, and the marked positions in the text.
_Line = tuple[str, str, str, Sequence[tuple[int, int, str]]]


def _span_lines(sample: Sample) -> Iterator[_Line]:
    marks = [
        (span["start"], span["start"] + len(span["text"]), kind)
        for kind, spans in (("truth", sample["truths"]), ("answer", sample["spans"]))
        for span in spans
        if span["start"] >= 0
    ]
    is_answer, none = "question" in sample, "none"
    if is_answer:
        yield "title", "", sample["question"], ()
        none = "no answer"
    yield "", "", sample["passage"], marks
    said = "no prediction" if sample["answer"] is None else sample["answer"] or none
    yield "", "predicted", said, [(0, len(said), "answer")]
    known = texts_of_spans(sample["truths"])
    is_known = not is_answer or sample["unanswerable"]
    yield "", "true", known or (none if is_known else "not known"), [(0, len(known), "truth")]
    name, best = ("n-best", sample["nbest"]) if is_answer else ("confidence", sample["spans"])
    yield from _table(name, ((texts_of_spans([one]) or none, one["probability"]) for one in best))


def _label_lines(sample: Sample) -> Iterator[_Line]:
    passage, shares = sample["passage"], sample.get("probabilities", {})
    if passage is not None:
        yield "", "", passage, ()
    # With a passage, each text is the option that a label names.
    names = [""] * len(sample["texts"]) if passage is None else list(shares)
    for name, text in zip(names, sample["texts"], strict=True):
        yield "title", name, text, ()
    for name, label in (("predicted", sample["answer"]), ("true", sample["truth"])):
        if not shares:
            label = "unknown" if label is None else f"{label:.3f}"
        elif isinstance(label, list):
            label = ", ".join(label) or "no label"
        yield "", name, label, ()
    if shares:
        yield from _table("all labels", shares.items())


def _table(name: str, rows: Iterable[tuple[str, float | None]]) -> Iterator[_Line]:
    """Yields one line per text, with its probability before it."""
    for number, (text, share) in enumerate(rows):
        known = "?" if share is None else f"{share:.0%}"
        yield "faint", f"{'' if number else name:<{_NAME}}{known:>4}  ", text, ()


def wrapped(
    text: str, marks: Sequence[tuple[int, int, str]], width: int, style: Style
) -> Iterator[str]:
    """Yields the lines of a text, with its marked parts highlighted."""
    edges = {edge for start, end, _ in marks for edge in (start, end)}
    for first, last in _lines(text, max(width, 20)):
        line, before = "", set[str]()
        cuts = sorted({first, last, *(edge for edge in edges if first < edge < last)})
        for start, end in itertools.pairwise(cuts):
            begun, ended = ({mark[2] for mark in marks if mark[n] == start} for n in (0, 1))
            if begun & ended:
                # Where a part ends and the next one of its kind begins, both get their own marks.
                line, before = line + style.change(before, set()), set()
            kinds = {kind for since, until, kind in marks if since <= start < until}
            line += style.change(before, kinds) + text[start:end]
            before = kinds
        yield line + style.change(before, set())


def _lines(text: str, width: int) -> Iterator[tuple[int, int]]:
    """Yields the start and end of each line of a text, broken at white space where possible."""
    start: int | None = None
    end = 0
    for word in re.finditer(rf"\S{{1,{width}}}", text):
        if start is not None and word.end() - start > width:
            yield start, end
            start = None
        start = word.start() if start is None else start
        end = word.end()
    yield (start, end) if start is not None else (0, 0)
