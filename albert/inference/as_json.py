"""A model's answers as JSON objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from albert.inference.places import place_of
from albert.inference.squad import QuestionAnswer


def answer_as_json(
    question: str,
    answered: QuestionAnswer,
    contexts: Sequence[str],
    n_best: int,
    names: Sequence[str] = (),
) -> dict[str, Any]:
    """Returns the answer to a question, and the best ones with their places.

    Args:
      question: as it was asked.
      answered: what the model says.
      contexts: the texts in which it has looked.
      n_best: answers to list.
      names: of the texts, where there are several to tell apart.
    """
    answers = []
    for answer in answered.answers[:n_best]:
        place = place_of(contexts[answer.context], answer.place, answer.place + len(answer.text))
        answers.append(
            {
                "text": answer.text,
                "probability": answer.probability,
                **({"context": names[answer.context]} if names else {}),
                "start": answer.place,
                "line": place.line,
                "character": place.character,
                "sentence": place.sentence,
            }
        )
    return {
        "question": question,
        "answer": "" if answered.abstains or not answers else answers[0]["text"],
        "abstains": answered.abstains,
        "no_answer_probability": answered.no_answer_probability,
        "answers": answers,
    }
