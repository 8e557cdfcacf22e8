"""The overview of a file of questions for `albert data check`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from albert.core.text import printable
from albert.data.overview import SHOWN, Line, Overview
from albert.tasks.squad.question_tables import COLUMNS
from albert.tasks.squad.questions import Questions


def overview_of(questions: Questions, num_examples: int) -> Overview:
    """Returns the overview of a file's questions; raises as `Questions.checked` does."""
    table, bad, counts = questions.table, questions.bad_rows(), list[tuple[str, str]]()
    if table:
        counts.append(("columns used", ", ".join(n for n in COLUMNS if n in table.columns)))
        ignored = ", ".join(n for n in table.columns if n and n not in COLUMNS)
        counts.append(("columns ignored", printable(ignored) or "none"))
    # Without answers, the questions can only be predicted.
    is_training = bool(table and {"answer", "answers"} & {*table.columns})
    total = contexts = unanswerable = several = unknown = 0
    last, examples = None, list[tuple[str, list[Line]]]()
    for paragraph in questions.paragraphs(is_training, bad):
        if paragraph.questions:
            contexts += paragraph.context != last
            last = paragraph.context
        for question in paragraph.questions:
            total += 1
            answers = question.get("answers")
            unanswerable += bool(question.get("is_impossible"))
            unknown += answers is None
            several += len(answers or ()) > 1
            if len(examples) < num_examples:
                title = f"id {printable(question['id'])}"
                examples.append((title, list(_lines_of(paragraph.context, question))))
    counts += [("contexts", f"{contexts:,}"), ("questions", f"{total:,}")]
    if unanswerable:
        counts.append(("unanswerable", f"{unanswerable:,}; train with `albert squad 2.0`"))
    if several:
        counts.append(("several answers", f"{several:,}; only for --predict_file"))
    if unknown:
        counts.append(("without answers", f"{unknown:,}; only for --predict_file"))
    return Overview(table.format if table else "SQuAD JSON", counts, examples, bad)


def _lines_of(context: str, question: dict[str, Any]) -> Iterator[Line]:
    """Yields the lines that show a question and the part of the context with its answer."""
    answers = question.get("answers")
    # Only a training checks the starts in SQuAD's JSON.
    offsets = [
        (start if isinstance(start := a.get("answer_start"), int) else context.find(text), text)
        for a in answers or ()
        for text in (a["text"],)
    ]
    first = max(0, offsets[0][0] if offsets else 0)
    begin = max(0, first - SHOWN)
    shown = ((start - begin, text) for start, text in offsets if start >= begin)
    texts = " | ".join(answer["text"] for answer in answers or ())
    said = "unknown" if answers is None else texts or "no answer"
    yield Line("question", question["question"][: 2 * SHOWN])
    yield Line("answer", said[: 2 * SHOWN])
    marks = [(start, start + len(text), "answer") for start, text in shown]
    yield Line("context", context[begin : first + SHOWN], marks)
