"""Conversion of predicted and true answers to samples (see `albert.report.predictions`)."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from albert.report.predictions import Sample, View, rounded
from albert.tasks.squad.comparison import Predictions, QuestionFile

_NBEST = 5  # answers per sample


class FoundAnswer(NamedTuple):
    """The answer to a question.

    Attributes:
      answer: the answer; "" means no answer, None that there is no prediction.
      nbest: the best answers, of which a sample has the first.
      odds: log-odds of no answer; None if unknown.
      exact, f1: scores of the answer; None if unknown.
    """

    answer: str | None
    nbest: Sequence[Mapping[str, Any]] = ()
    odds: float | None = None
    exact: float | None = None
    f1: float | None = None


def view_of(
    questions: QuestionFile,
    answers: Mapping[str, str],
    nbest: Mapping[str, Sequence[Mapping[str, Any]]],
    odds: Mapping[str, float | None],
) -> View:
    """Returns the view of answers as they are: a system that abstains has already done so.

    The arguments by question id are as in `FoundAnswer`. Answers get scores if the file has true
    answers.
    """
    is_known = questions.has_answers()
    scorer = Predictions(answers).scored(questions) if is_known else None
    exact, f1 = scorer.by_question() if scorer else ({}, {})
    answered = (
        FoundAnswer(answers.get(i), nbest.get(i, ()), odds.get(i), exact.get(i), f1.get(i))
        for i in questions.ids
    )
    pairs = zip(questions, answered, strict=True)
    samples = [sample_of(*question, answer, is_known) for question, answer in pairs]
    version = "2.0" if questions.is_version_2 else "1.1"
    title = f"SQuAD {version}: {os.path.basename(questions.path)}"
    scores = scorer.totals() if scorer else {}
    return View(title, scores, samples)


def sample_of(
    context: str, question: Mapping[str, Any], answered: FoundAnswer, is_known: bool
) -> Sample:
    """Returns the sample of an answer; `is_known` says whether the true answers are known."""
    truths = [_located(context, truth) for truth in question.get("answers") or []]
    answer, entries, odds, exact, f1 = answered
    nbest = entries[:_NBEST]
    spans = [{"start": _offset(context, answer, truths), "text": answer}] if answer else []
    return {
        "id": question["id"],
        "question": question["question"],
        "answer": answer,
        "right": None if exact is None else bool(exact),
        "score": rounded(f1),
        "confidence": rounded(_confidence(answer, nbest, odds)),
        "odds": rounded(odds),
        "unanswerable": is_known and not truths,
        "abstained": answer == "",
        "spans": spans,
        "truths": truths,
        "nbest": [{"text": e["text"], "probability": rounded(e["probability"])} for e in nbest],
        "passage": context,
    }


def _located(context: str, truth: Mapping[str, Any]) -> Sample:
    """Returns a true answer with its offset in the paragraph, -1 if it does not occur there."""
    start, text = truth.get("answer_start"), truth["text"]
    if not isinstance(start, int) or start < 0 or not context.startswith(text, start):
        start = context.find(text)
    return {"start": start, "text": text}


def _offset(context: str, answer: str, truths: Sequence[Sample]) -> int:
    """Returns the offset of the first occurrence that overlaps a true answer, or of the first."""
    start = first = context.find(answer)
    while start >= 0:
        end = start + len(answer)
        if any(start < t["start"] + len(t["text"]) and t["start"] < end for t in truths):
            return start
        start = context.find(answer, start + 1)
    return first


def _confidence(
    answer: str | None, nbest: Sequence[Mapping[str, Any]], odds: float | None
) -> float | None:
    """Returns the answer's share of the n-best list, times the probability of any answer."""
    no_answer = None if odds is None else 0.5 * (1 + math.tanh(odds / 2))
    if answer == "" and no_answer is not None:
        return no_answer
    for entry in nbest:
        if entry["text"] == answer:
            return entry["probability"] * (1 - (no_answer or 0.0))
    return None
