"""A model's answers as values: JSON objects with positions in the text, and columns of a table."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from albert.inference.base import SpanFinder
from albert.inference.classification import LabelPrediction, LabelSetPrediction, TextClassifier
from albert.inference.squad import QuestionAnswer, QuestionAnswerer
from albert.report.spans import Span

# Models that a command or a server asks, and the end of the error for others.
AskedModel = TextClassifier | SpanFinder | QuestionAnswerer
CHOOSES = "chooses options: use choose_all of albert.load in Python"
Answer = QuestionAnswer | LabelPrediction | LabelSetPrediction | list[Span]
PREDICTION, CONFIDENCE = "prediction", "confidence"
# Matches the text after the end of a sentence, or between paragraphs.
_BETWEEN_SENTENCES = re.compile(r"(?<=[.!?。！？])[\"'”’)\]]*\s+|(?<=[。！？])|\n\s*\n")
# Characters shown before and after an answer, where its sentence is longer.
_MOST_AROUND = 200


def answers_to(
    model: AskedModel, inputs: Iterable[Any], pause: Callable[[], None] | None = None
) -> Sequence[Answer]:
    """Returns the answers of a model to inputs, in batches, for which it may call `pause`.

    Each input has the arguments of the model's method for one input, such as `classify`.
    """
    if isinstance(model, SpanFinder):
        return model.find_all((text for (text,) in inputs), pause)
    if isinstance(model, QuestionAnswerer):
        return model.answer_all(inputs, pause)
    return model.classify_all(((text, "".join(second)) for text, *second in inputs), pause)


def as_json(
    answer: Answer, inputs: Sequence[Any], n_best: int = 1, names: Sequence[str] = ()
) -> dict[str, Any]:
    """Returns the answer to inputs as a JSON object, with positions in the texts among them.

    Of the answers to a question, it has the `n_best` best ones. `names` are those of the texts, if
    there are several.
    """
    if isinstance(answer, list):
        return {"spans": [_span_as_json(span, inputs[0]) for span in answer]}
    if not isinstance(answer, QuestionAnswer):
        return answer._asdict()
    question, texts = inputs
    texts = [texts] if isinstance(texts, str) else texts
    answers = [_span_as_json(span, texts[span.context], names) for span in answer.answers[:n_best]]
    return {
        "question": question,
        "answer": row_of(answer)[PREDICTION],
        "abstains": answer.abstains,
        "no_answer_probability": answer.no_answer_probability,
        "answers": answers,
    }


def row_of(answer: Answer) -> dict[str, Any]:
    """Returns the prediction in an answer, its confidence, and the probability of each label.

    The keys are names of columns. The prediction is "" if a model finds no answer to a question.
    """
    shares, confidence = dict[str, float](), None
    prediction: Any
    match answer:
        case QuestionAnswer([best, *_]) if not answer.abstains:
            prediction, confidence = best.text, best.probability
        case QuestionAnswer():
            prediction, confidence = "", answer.no_answer_probability
        case LabelPrediction(None, _, number):
            prediction = _rounded(number)
        case LabelPrediction(str(prediction), shares):
            confidence = shares[prediction]
        case LabelSetPrediction(prediction, shares):
            confidence = min((shares[label] for label in prediction), default=None)
        case list(spans):
            names = "start", "end", "text", "label", "probability"
            values = ((*span[:4], _rounded(span.probability)) for span in spans)
            prediction = [dict(zip(names, own, strict=True)) for own in values]
    columns = {f"probability {label}": _rounded(share) for label, share in shares.items()}
    return {PREDICTION: prediction, CONFIDENCE: _rounded(confidence), **columns}


def _rounded(number: float | None) -> float | None:
    """Returns a number with the digits that float32 has."""
    return None if number is None else float(f"{number:.7g}")


def location_of(text: str, start: int, end: int) -> tuple[int, int, str, int]:
    """Returns the line and character where `text[start:end]` begins, counted from 1.

    Also returns the text of its sentences, and its offset in that.
    """
    # Boundaries outside the text that is shown do not matter.
    low, high = max(start - _MOST_AROUND - 2, 0), min(end + _MOST_AROUND + 2, len(text))
    boundaries = list(_BETWEEN_SENTENCES.finditer(text, low, high))
    first = max((m.end() for m in boundaries if m.end() <= start), default=low)
    last = min((m.start() for m in boundaries if m.start() >= end), default=high)
    before, after = text[first:start], text[end:last]
    if len(before) > _MOST_AROUND:
        before = "…" + before[-_MOST_AROUND:]
    if len(after) > _MOST_AROUND:
        after = after[:_MOST_AROUND] + "…"
    sentence, line = before + text[start:end] + after, text.count("\n", 0, start) + 1
    return line, start - text.rfind("\n", 0, start), sentence, len(before)


def _span_as_json(span: Span, text: str, names: Sequence[str] = ()) -> dict[str, Any]:
    """Returns a span of a text with its position, and with a label and a context if it has them."""
    line, character, sentence, _ = location_of(text, span.start, span.end)
    return {
        "text": span.text,
        **({} if span.label is None else {"label": span.label}),
        "probability": span.probability,
        "start": span.start,
        "end": span.end,
        "line": line,
        "character": character,
        "sentence": sentence,
        **({"context": names[span.context]} if names else {}),
    }
