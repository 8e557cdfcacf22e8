"""Examples of SQuAD: one per question."""

from __future__ import annotations

import dataclasses
from typing import Any

from albert.core.errors import UserError
from albert.core.log import LOG
from albert.core.text import listed
from albert.tasks.squad.questions import Questions, QuestionSource


@dataclasses.dataclass(eq=False)
class SquadExample:
    """A question on a paragraph; in training, also its answer.

    Attributes:
      question_text, paragraph_text: texts as in the file.
      orig_answer_text: the answer; "" for no answer; None outside training.
      start_position: offset of the answer's first character; -1 for no answer; None outside
        training.
      end_position: not used, as in the reference.
      is_impossible: whether the question has no answer (SQuAD 2.0).
    """

    qas_id: str
    question_text: str
    paragraph_text: str
    orig_answer_text: str | None = None
    start_position: Any = None
    end_position: Any = None
    is_impossible: bool = False


# The ids of the questions that training skips, by reason.
DroppedQuestions = dict[str, list[str]]


def no_question_error(input_file: str, dropped: DroppedQuestions) -> UserError:
    """Returns the error for a file without other questions."""
    reasons = ", ".join(f"{len(ids)} {reason}" for reason, ids in dropped.items())
    return UserError(f"{input_file}: no usable questions ({reasons or 'it has none'})")


def log_dropped(input_file: str, dropped: DroppedQuestions) -> None:
    """Logs a warning for each reason."""
    message = "%s: skipped %d questions: %s: %s"
    for reason, ids in dropped.items():
        LOG.warning(message, input_file, len(ids), reason, listed(ids))


def read_squad_examples(input_file: str, is_training: bool) -> list[SquadExample]:
    """Reads a SQuAD 1.1 or 2.0 file, or a table of questions.

    For training, questions that cannot be learned from are skipped with a warning: those with an
    empty paragraph, question or answer, without an answer, or with an answer that is not at its
    `answer_start`. Raises a `UserError` if the file cannot be read, is not SQuAD, has several
    answers to a question (if `is_training`), or has no usable question.
    """
    questions = Questions(QuestionSource(input_file))
    examples, dropped = read_examples(questions, is_training)
    log_dropped(input_file, dropped)
    return examples


def read_examples(
    questions: Questions, is_training: bool, unanswerable: bool = False
) -> tuple[list[SquadExample], DroppedQuestions]:
    """Makes examples of questions; also returns the questions that training skips.

    In training, a question needs one answer, or must be marked as impossible. If `unanswerable`, a
    question without answers counts as impossible if it is not marked, and a question that is marked
    but has answers is skipped.
    """
    examples, dropped = list[SquadExample](), DroppedQuestions()
    for paragraph in questions.checked(is_training):
        for question in paragraph.questions:
            example = SquadExample(question["id"], question["question"], paragraph.context)
            reason = None
            if is_training:
                has_answers = bool(question.get("answers"))
                if unanswerable and not has_answers:
                    question = {"is_impossible": True, **question}
                _set_answer(example, question, questions.path)
                reason = _why_useless(example)
                if unanswerable and has_answers and example.is_impossible:
                    reason = "it is impossible, and has an answer"
            if reason:
                dropped.setdefault(reason, []).append(example.qas_id)
            else:
                examples.append(example)
    if not examples:
        raise no_question_error(questions.path, dropped)
    return examples, dropped


def _set_answer(example: SquadExample, question: dict, input_file: str) -> None:
    """Sets the answer for training; without an answer, it stays None unless it is impossible."""
    example.is_impossible = bool(question.get("is_impossible", False))
    if example.is_impossible:
        example.start_position, example.orig_answer_text = -1, ""
        return
    answers = question.get("answers") or []
    if len(answers) > 1:
        raise UserError(
            f"{input_file}: question {example.qas_id} has {len(answers)} answers; training needs "
            "exactly 1 answer per question; if this is a development file, pass the training file"
        )
    for answer in answers:
        example.orig_answer_text = answer["text"]
        example.start_position = answer["answer_start"]


def _why_useless(example: SquadExample) -> str | None:
    """Returns the reason why training cannot use an example, or None if it can."""
    if not example.paragraph_text.strip():
        return "the paragraph is empty"
    if not example.question_text.strip():
        return "the question is empty"
    if example.is_impossible:
        return None
    if example.orig_answer_text is None:
        return "there is no answer"
    if not example.orig_answer_text.strip():
        return "the answer is empty"
    start, text = example.start_position, example.orig_answer_text
    if start < 0 or example.paragraph_text[start : start + len(text)] != text:
        return "the answer is not at its answer_start"
    return None
