"""Examples of SQuAD: reading JSON files and tables into one example per question."""

from __future__ import annotations

import collections
from collections.abc import Iterator
from typing import Any

from albert.core.errors import UserError
from albert.core.files import check_readable, read_json
from albert.core.log import LOG
from albert.core.text import listed
from albert.data.tables import Table, find_table
from albert.tasks.squad import ERROR
from albert.tasks.squad.question_tables import BadRows, articles_of, read_questions


class SquadExample:
    """A question on a paragraph; in training, also its answer.

    Attributes:
      qas_id: id of the question.
      question_text, paragraph_text: texts as in the file.
      orig_answer_text: the answer; "" for no answer; None outside training.
      start_position: offset of the answer's first character; -1 for no answer; None outside
        training.
      end_position: not used, as in the reference.
      is_impossible: whether the question has no answer (SQuAD 2.0).
    """

    def __init__(
        self,
        qas_id,
        question_text,
        paragraph_text,
        orig_answer_text=None,
        start_position=None,
        end_position=None,
        is_impossible=False,
    ):
        self.qas_id = qas_id
        self.question_text = question_text
        self.paragraph_text = paragraph_text
        self.orig_answer_text = orig_answer_text
        self.start_position = start_position
        self.end_position = end_position
        self.is_impossible = is_impossible

    def __repr__(self) -> str:
        return (
            f"SquadExample(qas_id={self.qas_id!r}, question_text={self.question_text!r}, "
            f"paragraph_text={self.paragraph_text[:60]!r}, "
            f"orig_answer_text={self.orig_answer_text!r}, start_position={self.start_position!r}, "
            f"is_impossible={self.is_impossible!r})"
        )


class DroppedQuestions:
    """The questions that training skips: their counts by reason, and their first ids."""

    def __init__(self):
        self._ids = collections.defaultdict(list)

    def add(self, reason: str, qas_id: str) -> None:
        """Adds a skipped question."""
        self._ids[reason].append(qas_id)

    @property
    def counts(self) -> dict[str, int]:
        """Returns the number of skipped questions by reason."""
        return {reason: len(ids) for reason, ids in self._ids.items()}

    def none_is_left(self, input_file: str) -> UserError:
        """Returns the error for a file without other questions."""
        reasons = ", ".join(f"{n} {reason}" for reason, n in self.counts.items())
        return UserError(f"{input_file}: no usable questions ({reasons or 'it has none'})")

    def log(self, input_file: str) -> None:
        """Logs a warning for each reason."""
        for reason, ids in self._ids.items():
            LOG.warning(
                "%s: skipped %d questions: %s: %s", input_file, len(ids), reason, listed(ids)
            )


def read_squad_examples(input_file: str, is_training: bool) -> list[SquadExample]:
    """Reads a SQuAD 1.1 or 2.0 file, or a table of questions.

    For training, questions that cannot be learned from are skipped with a warning: those with an
    empty paragraph, question or answer, without an answer, or with an answer that is not at its
    `answer_start`.

    Raises:
      UserError: the file cannot be read, is not SQuAD, has several answers to a question (if
        `is_training`), or has no usable question.
    """
    articles = load_squad(input_file, is_training)
    examples, left_out = read_examples(articles, input_file, is_training)
    left_out.log(input_file)
    return examples


def load_squad(input_file: str, is_training: bool = False, on_bad_row: str = ERROR) -> list[dict]:
    """Loads the articles of a SQuAD file, which are its content under "data", or of a table.

    Args:
      input_file: the file.
      is_training: for a table, whether every answer needs its place in the context.
      on_bad_row: for a table, see `BadRows`.

    Raises:
      UserError: the file cannot be read or parsed, or a table has bad rows.
    """
    if table := find_question_table(input_file):
        bad = BadRows(input_file, on_bad_row)
        articles = list(articles_of(read_questions(table, is_training, bad)))
        bad.finish()
        return articles
    content = read_json(input_file, "SQuAD file")
    if not isinstance(content, dict) or not isinstance(content.get("data"), list):
        raise UserError(f'{input_file} is not SQuAD: it has no list "data" at the top level')
    return content["data"]


def find_question_table(input_file: str) -> Table | None:
    """Returns the table of questions in a file; None for a JSON document.

    Raises:
      UserError: the file cannot be read, or has another kind of table.
    """
    check_readable(input_file, "SQuAD file")
    table = find_table(input_file)
    if table and not {"context", "question"} & set(table.columns):
        raise UserError(
            f'{input_file} is not SQuAD: it has neither a list "data" nor columns context and '
            "question"
        )
    return table


def questions_in(
    input_file: str, is_training: bool, bad: BadRows
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the context and the content of every question in a file.

    A table is read row by row. The arguments are those of `read_questions`.

    Raises:
      UserError: the file is not valid.
    """
    if table := find_question_table(input_file):
        questions = read_questions(table, is_training, bad)
        yield from ((question.context, question.content) for question in questions)
    else:
        yield from checked_questions(load_squad(input_file), input_file, is_training)


def read_examples(
    articles: list[dict], input_file: str, is_training: bool, unanswerable: bool = False
) -> tuple[list[SquadExample], DroppedQuestions]:
    """Makes examples from articles; also returns the questions that training skips.

    Args:
      articles: the articles, from `load_squad`.
      input_file: name of their file in messages.
      is_training: whether each question needs one answer, or must be marked as impossible.
      unanswerable: whether a question without answers counts as impossible if it is not marked; a
        question that is marked but has answers is then skipped.
    """
    examples, left_out = [], DroppedQuestions()
    for paragraph_text, question in checked_questions(articles, input_file, is_training):
        example = SquadExample(question["id"], question["question"], paragraph_text)
        if is_training:
            has_answers = bool(question.get("answers"))
            if unanswerable and not has_answers:
                question = {"is_impossible": True, **question}
            _set_answer(example, question, input_file)
            reason = _why_useless(example)
            if unanswerable and has_answers and example.is_impossible:
                reason = "it is impossible, and has an answer"
            if reason:
                left_out.add(reason, example.qas_id)
                continue
        examples.append(example)
    if not examples:
        raise left_out.none_is_left(input_file)
    return examples, left_out


def checked_questions(
    articles: list[dict], input_file: str, is_training: bool
) -> Iterator[tuple[str, dict]]:
    """Yields every question in the file with its paragraph's text, after checking their form.

    The positions of answers are only checked for training, because scores compare texts.

    Raises:
      UserError: a value is missing or has another type, or an id occurs twice.
    """
    seen = set()
    for a, article in enumerate(articles):
        for p, paragraph in enumerate(_get(article, "paragraphs", list, input_file, f"data[{a}]")):
            place = f"data[{a}].paragraphs[{p}]"
            text = _get(paragraph, "context", str, input_file, place)
            for q, question in enumerate(_get(paragraph, "qas", list, input_file, place)):
                here = f"{place}.qas[{q}]"
                qas_id = check_question(question, input_file, here, is_training)
                if qas_id in seen:
                    raise UserError(f"{input_file}: question id {qas_id} occurs twice ({here})")
                seen.add(qas_id)
                yield text, question


def check_question(question: Any, input_file: str, place: str, is_training: bool) -> str:
    """Returns the id of a question after checking its form; see `checked_questions`."""
    _get(question, "question", str, input_file, place)
    if question.get("answers") is not None:
        _get(question, "answers", list, input_file, place)
    for answer in question.get("answers") or []:
        _get(answer, "text", str, input_file, place + ".answers")
        if is_training:
            _get(answer, "answer_start", int, input_file, place + ".answers")
    impossible = question.get("is_impossible")
    if not isinstance(impossible, bool | None):
        raise UserError(
            f'{input_file} is not SQuAD: {place}: "is_impossible" must be true or false, not '
            f"{impossible!r:.80}"
        )
    return _get(question, "id", str, input_file, place)


def _get(owner: Any, key: str, kind: type, input_file: str, place: str) -> Any:
    """Returns `owner[key]` after checking its type."""
    value = owner.get(key) if isinstance(owner, dict) else None
    if not isinstance(value, kind):
        raise UserError(f'{input_file} is not SQuAD: {place} has no {kind.__name__} "{key}"')
    return value


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
