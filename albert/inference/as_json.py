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
    """Returns the answer to a question, and the best answers with their positions.

    Args:
      question: the question as it was asked.
      answered: the model's answer.
      contexts: the texts that the answer may come from.
      n_best: number of answers to list.
      names: names of the texts, if there are several.
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
