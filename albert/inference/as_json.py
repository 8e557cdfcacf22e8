"""A model's answers as JSON objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from albert.inference.locations import location_of
from albert.inference.squad import QuestionAnswer
from albert.report.spans import Span


def answer_as_json(
    question: str,
    answered: QuestionAnswer,
    contexts: Sequence[str],
    n_best: int,
    names: Sequence[str] = (),
) -> dict[str, Any]:
    """Returns the answer to a question, and the `n_best` best answers with their positions.

    The answer may come from any of the contexts; `names` are theirs, if there are several.
    """
    answers = [
        {
            **span_as_json(answer, contexts[answer.context]),
            **({"context": names[answer.context]} if names else {}),
        }
        for answer in answered.answers[:n_best]
    ]
    return {
        "question": question,
        "answer": "" if answered.abstains or not answers else answers[0]["text"],
        "abstains": answered.abstains,
        "no_answer_probability": answered.no_answer_probability,
        "answers": answers,
    }


def span_as_json(span: Span, text: str) -> dict[str, Any]:
    """Returns a span of a text with its position; only a span with a label has the key `label`."""
    location = location_of(text, span.start, span.end)
    return {
        "text": span.text,
        **({} if span.label is None else {"label": span.label}),
        "probability": span.probability,
        "start": span.start,
        "end": span.end,
        "line": location.line,
        "character": location.character,
        "sentence": location.sentence,
    }
