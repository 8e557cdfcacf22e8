"""A model's answers as JSON objects, with their positions in the text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from albert.inference.squad import QuestionAnswer
from albert.report.spans import Span

# Matches the text after the end of a sentence, or between paragraphs.
_BETWEEN_SENTENCES = re.compile(r"(?<=[.!?。！？])[\"'”’)\]]*\s+|(?<=[。！？])|\n\s*\n")
# Characters shown before and after an answer, where its sentence is longer.
_MOST_AROUND = 200


class TextSpan(NamedTuple):
    """A part of a text, with the text of its sentences before and after it.

    `line` and `character` are the position of its first character, counted from 1.
    """

    line: int
    character: int
    before: str
    text: str
    after: str

    @property
    def sentence(self) -> str:
        """Returns the part with the text around it."""
        return self.before + self.text + self.after


def location_of(text: str, start: int, end: int) -> TextSpan:
    """Returns the position of `text[start:end]`."""
    line_start = text.rfind("\n", 0, start) + 1
    first, last = _sentence(text, start, end)
    cut_before, cut_after = first < start - _MOST_AROUND, last > end + _MOST_AROUND
    before = text[max(first, start - _MOST_AROUND) : start]
    after = text[end : min(last, end + _MOST_AROUND)]
    return TextSpan(
        text.count("\n", 0, start) + 1,
        start - line_start + 1,
        "…" * cut_before + before,
        text[start:end],
        after + "…" * cut_after,
    )


def _sentence(text: str, start: int, end: int) -> tuple[int, int]:
    """Returns the start and end of the sentences that contain a part of a text."""
    # Boundaries outside the text that is shown do not matter.
    low, high = max(start - _MOST_AROUND - 2, 0), min(end + _MOST_AROUND + 2, len(text))
    boundaries = list(_BETWEEN_SENTENCES.finditer(text, low, high))
    first = max((m.end() for m in boundaries if m.end() <= start), default=low)
    last = min((m.start() for m in boundaries if m.start() >= end), default=high)
    return first, last


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
