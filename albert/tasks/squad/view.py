"""Conversion of predicted and true answers to a view (see `albert.report.page`)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from albert.report.page import finite, rounded

_NBEST = 5  # answers per question on the page


def answers_view(
    title: str,
    articles: list[dict],
    answers: Mapping[str, str],
    scores: Mapping[str, float],
    raw: tuple[Mapping[str, float], Mapping[str, float]] | None,
    nbest: Iterable[tuple[str, Sequence[Mapping[str, Any]]]] = (),
    odds: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """Returns the view of answers to a SQuAD file.

    Args:
      title: title of the page.
      articles: content of the file under "data".
      answers: answers by question id; "" means no answer.
      scores: overall scores by name.
      raw: exact match and F1 by question id; None if true answers are unknown.
      nbest: question ids with n-best lists, for any of the questions.
      odds: log-odds of no answer by question id; None if unknown.
    """
    # The complete lists of all questions may not fit into memory.
    lists = {qas_id: entries[:_NBEST] for qas_id, entries in nbest}
    passages, samples = list[str](), list[dict[str, Any]]()
    for paragraph in (p for article in articles for p in article["paragraphs"]):
        context = paragraph["context"]
        for question in paragraph["qas"]:
            qas_id = question["id"]
            found = {
                "id": qas_id,
                "passage": len(passages),
                "question": question["question"],
                "nbest": [
                    [entry["text"], rounded(entry["probability"])]
                    for entry in lists.get(qas_id, ())
                ],
                "odds": rounded((odds or {}).get(qas_id)),
            }
            answer = answers.get(qas_id)
            found |= _compared(context, question, answer, raw)
            confidence = _confidence(answer, lists.get(qas_id, ()), (odds or {}).get(qas_id))
            samples.append(found | {"confidence": rounded(confidence)})
        passages.append(context)
    return {
        "kind": "answers",
        "title": title,
        "scores": {name: finite(score) for name, score in scores.items()},
        "labels": [],
        "passages": passages,
        "samples": samples,
    }


def _compared(
    context: str,
    question: Mapping[str, Any],
    answer: str | None,
    raw: tuple[Mapping[str, float], Mapping[str, float]] | None,
) -> dict[str, Any]:
    """Returns a question's predicted and true answers, with their places in the paragraph."""
    truths = [_place_of_truth(context, truth) for truth in question.get("answers") or []]
    exact, f1 = (of_all.get(question["id"]) for of_all in raw) if raw else (None, None)
    return {
        "truths": truths,
        "answer": answer,
        "spans": [(_place(context, answer, truths), answer)] if answer else [],
        "right": None if exact is None else bool(exact),
        "score": rounded(f1),
        "unanswerable": raw is not None and not truths,
        "abstained": answer == "",
    }


def _place_of_truth(context: str, truth: Mapping[str, Any]) -> tuple[int, str]:
    start, text = truth.get("answer_start"), truth["text"]
    if isinstance(start, int) and start >= 0 and context.startswith(text, start):
        return start, text
    return context.find(text), text


def _place(context: str, answer: str, truths: Sequence[tuple[int, str]]) -> int:
    """Returns the place of the answer in the paragraph, which files of predictions do not have.

    If the answer occurs several times, this is the first place that overlaps a true answer, or
    otherwise the first.
    """
    start = first = context.find(answer)
    while start >= 0:
        if any(start < place + len(text) and place < start + len(answer) for place, text in truths):
            return start
        start = context.find(answer, start + 1)
    return first


def _confidence(
    answer: str | None, nbest: Sequence[Mapping[str, Any]], odds: float | None
) -> float | None:
    """Returns the model's probability of an answer; None if unknown.

    This is the answer's probability in the n-best list, times the probability of any answer.
    """
    no_answer = None if odds is None else 0.5 * (1 + math.tanh(odds / 2))
    if answer == "" and no_answer is not None:
        return no_answer
    for entry in nbest:
        if entry["text"] == answer:
            return entry["probability"] * (1 - (no_answer or 0.0))
    return None
