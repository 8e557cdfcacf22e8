"""The overview of a file of questions for `albert data check`."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from albert.core.text import printable
from albert.tables.bad_rows import BadRows
from albert.tables.overview import SHOWN, Line, Overview
from albert.tasks.squad.question_tables import COLUMNS
from albert.tasks.squad.questions import IMPOSSIBLE, NO_ANSWER, Paragraph, Questions, QuestionSource

# What else is counted, with the rest of its text.
_ROWS = {
    "repeated": " have the text and the context of another one",
    "unanswerable": "; train with `albert squad 2.0`",
    "several answers": "; for --predict_file, or train with --answers=first or all",
    "without answers": "; only for --predict_file",
}


def fill(overview: Overview) -> None:
    """Fills an overview of a file of questions; raises as `Questions.paragraphs` does."""
    questions = Questions(QuestionSource(overview.path, overview.on_bad_row))
    table, bad = questions.table, questions.bad_rows(is_strict=True)
    overview.format, overview.bad = questions.format, bad
    # Without answers, the questions of a table can only be predicted.
    is_training = not table or not {"answer", "answers"}.isdisjoint(table.columns)
    counts, unknown, before = collections.Counter[str](), list[str](), None
    # A number takes less memory than the texts.
    keys = set[int]()
    for paragraph in consistent(questions.paragraphs(is_training, bad), bad):
        context = paragraph.context
        for question in paragraph.questions:
            answers, is_impossible = question.get("answers"), question.get("is_impossible")
            counts["contexts"] += context != before
            counts["questions"] += 1
            counts["unanswerable"] += bool(is_impossible)
            counts["several answers"] += len(answers or ()) > 1
            before = context
            keys.add(hash((context, question["question"])))
            if not (is_impossible or answers):
                unknown.append(question["id"])
            title = f"id {printable(question['id'])}"
            overview.add_example(title, _lines_of(context, question))
    counts["repeated"] = counts["questions"] - len(keys)
    counts["without answers"] = len(unknown)
    if len(unknown) < counts["questions"] and not counts["unanswerable"]:
        for qas_id in unknown:
            bad.add(qas_id, NO_ANSWER)
    if table:
        overview.add_columns(table, COLUMNS)
    overview.add("contexts", counts["contexts"])
    overview.add("questions", counts["questions"])
    for name, text in _ROWS.items():
        if counts[name]:
            overview.add(name, counts[name], text)


def consistent(
    paragraphs: Iterable[Paragraph], bad: BadRows, needs_answers: bool = False
) -> Iterator[Paragraph]:
    """Yields paragraphs without impossible questions that have answers, which `bad` receives.

    If `needs_answers`, other questions need an answer.
    """
    for paragraph in paragraphs:
        qas = list[dict[str, Any]]()
        for question in paragraph.questions:
            is_impossible, answers = question.get("is_impossible"), question.get("answers")
            if is_impossible and answers:
                bad.add(question["id"], IMPOSSIBLE)
            elif needs_answers and not (is_impossible or answers):
                bad.add(question["id"], NO_ANSWER)
            else:
                qas.append(question)
        if qas or not paragraph.questions:
            yield paragraph._replace(content={**paragraph.content, "qas": qas})


def _lines_of(context: str, question: Mapping[str, Any]) -> Iterator[Line]:
    """Yields the lines that show a question and the part of the context with its answer."""
    answers = question.get("answers")
    offsets = [(answer.get("answer_start", -1), answer["text"]) for answer in answers or ()]
    first = max(0, offsets[0][0] if offsets else 0)
    begin = max(0, first - SHOWN)
    shown = ((start - begin, text) for start, text in offsets if start >= begin)
    texts = " | ".join(answer["text"] for answer in answers or ())
    said = "unknown" if answers is None else texts or "no answer"
    yield Line("question", question["question"][: 2 * SHOWN])
    yield Line("answer", said[: 2 * SHOWN])
    marks = [(start, start + len(text), "answer") for start, text in shown]
    yield Line("context", context[begin : first + SHOWN], marks)
