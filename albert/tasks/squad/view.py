"""Conversion of predicted and true answers to a view (see `albert.report.page`)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from albert.report.page import finite, rounded

_NBEST = 5  # answers per question on the page


class FoundAnswer(NamedTuple):
    """The answer to a question.

    Attributes:
      answer: the answer; "" means no answer, None that there is no prediction.
      nbest: the best answers, of which the page shows the first.
      odds: log-odds of no answer; None if unknown.
      exact, f1: scores of the answer; None if unknown.
    """

    answer: str | None
    nbest: Sequence[Mapping[str, Any]] = ()
    odds: float | None = None
    exact: float | None = None
    f1: float | None = None


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
    paragraphs = [(p["context"], p["qas"]) for article in articles for p in article["paragraphs"]]
    lists, (exact, f1) = dict(nbest), raw or ({}, {})
    found = (
        FoundAnswer(
            answers.get(qas_id),
            lists.get(qas_id, ()),
            (odds or {}).get(qas_id),
            exact.get(qas_id),
            f1.get(qas_id),
        )
        for _, questions in paragraphs
        for qas_id in (question["id"] for question in questions)
    )
    contexts = (context for context, _ in paragraphs)
    samples = samples_of(paragraphs, found, raw is not None)
    return view_of_samples(title, scores, list(contexts), list(samples))


def view_of_samples(
    title: str,
    scores: Mapping[str, float],
    passages: Iterable[str],
    samples: Iterable[dict[str, Any]],
) -> dict[str, Any]:
    """Returns the view of the contexts of all paragraphs, and of samples from `samples_of`."""
    return {
        "kind": "answers",
        "title": title,
        "scores": {name: finite(score) for name, score in scores.items()},
        "labels": [],
        "passages": passages,
        "samples": samples,
    }


def samples_of(
    paragraphs: Iterable[tuple[str, Iterable[Mapping[str, Any]]]],
    found: Iterable[FoundAnswer],
    is_known: bool,
) -> Iterator[dict[str, Any]]:
    """Yields the samples of a view.

    Args:
      paragraphs: contexts with their questions.
      found: the answer to each question.
      is_known: whether the true answers are known.
    """
    answers = iter(found)
    for passage, (context, questions) in enumerate(paragraphs):
        for question in questions:
            answer = next(answers)
            shown = answer.nbest[:_NBEST]
            yield {
                "id": question["id"],
                "passage": passage,
                "question": question["question"],
                "nbest": [[entry["text"], rounded(entry["probability"])] for entry in shown],
                "odds": rounded(answer.odds),
                **_compared(context, question, answer, is_known),
                "confidence": rounded(_confidence(answer.answer, shown, answer.odds)),
            }


def _compared(
    context: str,
    question: Mapping[str, Any],
    found: FoundAnswer,
    is_known: bool,
) -> dict[str, Any]:
    """Returns a question's predicted and true answers, with their places in the paragraph."""
    truths = [_place_of_truth(context, truth) for truth in question.get("answers") or []]
    answer = found.answer
    return {
        "truths": truths,
        "answer": answer,
        "spans": [(_place(context, answer, truths), answer)] if answer else [],
        "right": None if found.exact is None else bool(found.exact),
        "score": rounded(found.f1),
        "unanswerable": is_known and not truths,
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
