"""Reading of SQuAD's examples from files of questions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from albert.core.errors import UserError
from albert.tables.bad_rows import BadRows
from albert.tasks.squad import ALL, ONE
from albert.tasks.squad.example import SquadExample
from albert.tasks.squad.questions import Questions, QuestionSource

# Reasons why a training skips a question.
NO_ANSWER = "there is no answer"
IMPOSSIBLE = "it is impossible, and has an answer"


def no_question_error(input_file: str, skipped: Mapping[str, int]) -> UserError:
    """Returns the error for a file without other questions; `skipped` counts them by reason."""
    reasons = ", ".join(f"{count} {reason}" for reason, count in skipped.items())
    return UserError(f"{input_file}: no usable questions ({reasons or 'it has none'})")


def read_squad_examples(input_file: str, is_training: bool) -> list[SquadExample]:
    """Reads a SQuAD 1.1 or 2.0 file, or a table of questions.

    For training, questions that cannot be learned from are skipped with a warning: those with an
    empty paragraph, question or answer, without an answer, or with an answer that is not at its
    `answer_start`. Raises a `UserError` if the file cannot be read, is not SQuAD, has several
    answers to a question (if `is_training`), or has no usable question.
    """
    return read_examples(Questions(QuestionSource(input_file)), is_training)[0]


def read_examples(
    questions: Questions, is_training: bool, unanswerable: bool = False
) -> tuple[list[SquadExample], Mapping[str, int]]:
    """Makes examples of questions; also returns the numbers of those that are skipped, by reason.

    In training, a question needs one answer, or must be marked as impossible. If `unanswerable`, a
    question without answers counts as impossible if it is not marked, and a question that is marked
    but has answers is skipped. Logs what is skipped, or raises a `UserError`; see `BadRows`.
    """
    examples, bad = list[SquadExample](), questions.bad_rows()
    for paragraph in questions.paragraphs(is_training, bad):
        for question in paragraph.questions:
            about = question["id"], question["question"], paragraph.context
            if is_training:
                for text, start in _trained(question, questions, unanswerable, bad):
                    examples.append(SquadExample(*about, text, start, None, start < 0))
            else:
                examples.append(SquadExample(*about))
    bad.finish()
    if not examples:
        raise no_question_error(questions.path, bad.counts)
    return examples, bad.counts


def _trained(
    question: Mapping[str, Any], questions: Questions, unanswerable: bool, bad: BadRows
) -> list[tuple[str, int]]:
    """Returns the texts and starts of the answers to train on; ("", -1) for no answer."""
    answers, which = question.get("answers") or [], questions.source.answers
    # Null means the same as no value.
    impossible = question.get("is_impossible")
    if impossible or (impossible is None and unanswerable and not answers):
        if unanswerable and answers:
            bad.add(question["id"], IMPOSSIBLE)
            return []
        return [("", -1)]
    if not answers:
        bad.add(question["id"], NO_ANSWER)
    if len(answers) > 1 and which == ONE:
        raise UserError(
            f"{questions.path}: question {question['id']} has {len(answers)} answers; training "
            "needs exactly 1 answer per question; if this is a development file, pass the training "
            "file; to train on several, pass --answers=first or all"
        )
    # An annotator may have given the answer of another one.
    different = {(answer["text"], answer["answer_start"]): None for answer in answers}
    return [*different][: None if which == ALL else 1]
