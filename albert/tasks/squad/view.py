"""Conversion of predicted and true answers to samples (see `albert.report.predictions`)."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

from albert.report.predictions import Sample, View, rounded
from albert.tasks.squad.comparison import Predictions, QuestionFile
from albert.tasks.squad.scoring import ScoredAnswer, Scorer

_NBEST = 5  # answers per sample


def view_of(
    questions: QuestionFile,
    answers: Mapping[str, str],
    odds: Mapping[str, float | None] | None,
    nbest: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
) -> View:
    """Returns the view of answers as they are: a system that abstains has already done so.

    The arguments by question id are the answers and, if known, the log-odds of no answer and the
    best answers. Answers get scores if the file has true answers.
    """
    odds, nbest = odds or {}, nbest or {}
    is_known = questions.has_answers()
    scorer = Predictions(answers).scored(questions) if is_known else Scorer()
    scored, samples = {one.qas_id: one for one in scorer.answers}, []
    for context, question in questions:
        qas_id = question["id"]
        answer = scored.get(qas_id) or ScoredAnswer(qas_id, answers.get(qas_id))
        answer.odds = odds.get(qas_id)
        samples.append(sample_of(context, question, answer, nbest.get(qas_id, ()), is_known))
    version = "2.0" if questions.is_version_2 else "1.1"
    title = f"SQuAD {version}: {os.path.basename(questions.path)}"
    return View(title, scorer.totals() if is_known else {}, samples)


def sample_of(
    context: str,
    question: Mapping[str, Any],
    answered: ScoredAnswer,
    nbest: Sequence[Mapping[str, Any]],
    is_known: bool,
) -> Sample:
    """Returns the sample of an answer, with the first of the best answers.

    `is_known` says whether the true answers are known; if they are not, scores are ignored.
    """
    truths = [_located(context, truth) for truth in question.get("answers") or []]
    answer, odds, nbest = answered.answer, answered.odds, nbest[:_NBEST]
    is_scored = is_known and not math.isnan(answered.exact)
    spans = [{"start": _offset(context, answer, truths), "text": answer}] if answer else []
    return {
        "id": question["id"],
        "question": question["question"],
        "answer": answer,
        "right": bool(answered.exact) if is_scored else None,
        "score": rounded(answered.f1) if is_scored else None,
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
