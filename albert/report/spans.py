"""Spans of texts, which models output: answers to a question, or parts with labels."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from albert.report.predictions import Sample, View, finite, rounded


class Span(NamedTuple):
    """A part of a text.

    Attributes:
      start, end: offset of its first character in the text, and the offset after its last one.
      label: None for an answer.
      probability: its probability according to the model; None for a true span.
      context: number of the text, if there are several.
    """

    start: int
    end: int
    text: str
    label: str | None = None
    probability: float | None = None
    context: int = 0


def texts_of_spans(spans: Iterable[Mapping[str, Any]]) -> str:
    """Returns the texts of a sample's spans in one line, with their labels; "" without spans."""
    texts = (f"{s['text']} ({s['label']})" if "label" in s else s["text"] for s in spans)
    return " | ".join(dict.fromkeys(texts))


def spans_view(
    title: str,
    texts: Mapping[str, str],
    predictions: Iterable[Sequence[Span]],
    truths: Iterable[Sequence[Span]],
    scores: Mapping[str, float],
) -> View:
    """Returns the view of predicted and true spans with labels; `texts` are by id."""
    rows = zip(texts.items(), predictions, truths, strict=True)
    return View(title, scores, (_sample(*text, *spans) for text, *spans in rows))


def _sample(name: str, text: str, predicted: Sequence[Span], truths: Sequence[Span]) -> Sample:
    keys = [{(s.start, s.end, s.label) for s in spans} for spans in (predicted, truths)]
    count = len(predicted) + len(truths)
    shares = [span.probability for span in predicted if span.probability is not None]
    spans = [{**_shown(span), "probability": finite(span.probability)} for span in predicted]
    return {
        "id": name,
        "answer": texts_of_spans(spans),
        "right": keys[0] == keys[1],
        # The F1 of this text; a text without spans is right.
        "score": rounded(2 * len(keys[0] & keys[1]) / count if count else 1.0),
        "confidence": rounded(min(shares, default=None)),
        "spans": spans,
        "truths": [_shown(span) for span in truths],
        "passage": text,
    }


def _shown(span: Span) -> dict[str, Any]:
    return {"start": span.start, "text": span.text, "label": span.label}


def prediction_of(sample: Sample) -> Any:
    """Returns the prediction for a sample: spans with labels, or its answer."""
    if "question" in sample or "spans" not in sample:
        return sample["answer"]
    return [Span(end=s["start"] + len(s["text"]), **s) for s in sample["spans"]]


def span_scores(
    predictions: Iterable[Sequence[Span]], truths: Iterable[Sequence[Span]]
) -> dict[str, float]:
    """Returns precision, recall and F1 of spans with labels: of all, and of each label.

    These are seqeval's, as fractions: a span is right if its start, end and label are. A score is 0
    if its denominator is.
    """
    predicted, true = (
        {(n, s.start, s.end, s.label or "") for n, spans in enumerate(texts) for s in spans}
        for texts in (predictions, truths)
    )
    keys = predicted & true, predicted, true
    counts = [collections.Counter(key[-1] for key in each) for each in keys]
    scores = scores_of_counts(*map(len, keys))
    for label in sorted(counts[1] | counts[2]):
        label_scores = scores_of_counts(*(count[label] for count in counts))
        scores |= {f"{label}_{name}": score for name, score in label_scores.items()}
    return scores


def scores_of_counts(hits: int, predicted: int, true: int) -> dict[str, float]:
    """Returns precision, recall and F1 from the numbers of right, predicted and true labels."""
    counts = {"precision": predicted, "recall": true, "f1": (predicted + true) / 2}
    return {name: hits / (count or 1) for name, count in counts.items()}
