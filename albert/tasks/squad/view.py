"""Answers as a view, see `albert.report.page`: what each question got, and what is true."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from albert.report.page import finite, rounded

_NBEST = 5  # answers of a question on the page


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
      title: of the page.
      articles: what the file has under "data".
      answers: question id to answer, "" for none.
      scores: of all, by name.
      raw: question id to exact match and to F1; None where true answers are not known.
      nbest: question id with its n-best list, of any number of questions.
      odds: question id to log-odds that there is no answer; None if not known.
    """
    # The whole lists of all questions may not fit into memory.
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
    """Returns a question's answer beside the true ones, and their places in the paragraph."""
    truths = [_place_of_truth(context, truth) for truth in question.get("answers") or []]
    exact, f1 = (of_all.get(question["id"]) for of_all in raw) if raw else (None, None)
    return {
        "truths": truths,
        "answer": answer,
        "place": _place(context, answer, truths) if answer else -1,
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
    """Returns where the answer is in the paragraph; files of predictions do not say it.

    Of several places it is the first that touches a true answer, or else the first.
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
    """Returns how probable an answer is by the model; None if that is not known.

    An answer's probability is that among the n-best, times that there is an answer at all.
    """
    no_answer = None if odds is None else 0.5 * (1 + math.tanh(odds / 2))
    if answer == "" and no_answer is not None:
        return no_answer
    for entry in nbest:
        if entry["text"] == answer:
            return entry["probability"] * (1 - (no_answer or 0.0))
    return None
