"""Questions from tables: rows with a context, a question and its answer.

The columns are `context`, `question` and `answer`, and optionally `answer_start`, `id`, `title` and
`is_impossible`.
JSON may have `answers` instead, as Hugging Face's SQuAD or SQuAD's JSON does; a cell may have them
as Python writes them. Consecutive rows with the same id are one question with several answers. Rows
of MRQA have a context and its questions.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from albert.core.text import python_literal
from albert.tables.bad_rows import BadRows
from albert.tables.tables import Row, SourceLine, Table, columns
from albert.tasks.squad.answers import usable_answer, why_empty

COLUMNS = (
    *("context", "question", "answer", "answers", "answer_start", "is_impossible", "id", "title"),
)
_TRUTH_VALUES = {"true": True, "1": True, "false": False, "0": False, "": None, "none": None}
# A cell with the answers of Hugging Face's SQuAD, and the arrays of NumPy in it.
_MADE_BY_PYTHON = re.compile(
    r"""\{(?=.*['"]text['"]\s*:)(?=.*['"]answer_start['"]\s*:).*\}""", re.DOTALL
)
_ARRAY = re.compile(r"array\((?=\[)|(?<=\])(,\s*dtype=\w+)?\)")
_QAS = "qas"
# The columns of rows made of MRQA.
MRQA = ("id", "context", "question", "answers", _QAS)
# Either has the answers of a row.
_ANSWER = {"answer", "answers"}


def read_questions(
    table: Table, is_training: bool, bad: BadRows
) -> Iterator[tuple[tuple[str, str], dict[str, Any]]]:
    """Yields the questions of a table as in SQuAD's JSON, each after its title and context.

    Questions have no "answers" if the table has none. Rows that cannot be used are added to `bad`.
    Raises a `UserError` if the table or a value is not valid, or rows with the same id are not
    consecutive.

    Args:
      is_training: whether every answer needs its offset in the context. If `answer_start` does not
        give it, the answer must occur exactly once.
      bad: see `BadRows`; the caller finishes it.
    """
    required: tuple[str, ...] = ("context", "question")
    # A line of JSON Lines may have other names than the first one.
    if is_training and table.has_cells and not _ANSWER & {*table.columns}:
        required += ("answer",)
    lines = dict[str, int]()

    def key(row: Row) -> str | int:
        return _text(*row, "id") or row[0].line

    groups = itertools.groupby(_rows(table, required, is_training), key)
    for number, (_, group) in enumerate(groups, start=1):
        (location, row), *others = group
        qas_id = _text(location, row, "id") or str(number)
        if (line := lines.setdefault(qas_id, location.line)) != location.line:
            raise location.error(
                f"question id {qas_id} occurs twice, first in {location.unit} {line}; the "
                "rows of a question must be consecutive"
            )
        context, question = _text(location, row, "context"), _text(location, row, "question")
        for other, its_row in others:
            if (its_row["context"], its_row["question"]) != (context, question):
                raise other.error(
                    f"question id {qas_id} belongs to another question or context in "
                    f"{location.name}"
                )
        if reason := why_empty(context, question):
            bad.add(location, reason)
            continue
        content = {"id": qas_id, "question": question}
        rows = [(location, row), *others]
        has_answers = any(_ANSWER & one.keys() for _, one in rows)
        if is_training and not has_answers:
            bad.add(location, "there is no answer")
            continue
        if has_answers:
            answered = _answered(context, rows, is_training, bad)
            if not answered:
                continue
            content |= answered
        yield (_text(location, row, "title"), context), content


def _rows(table: Table, required: Sequence[str], is_training: bool) -> Iterator[Row]:
    """Yields the rows of a table, and one for each question of a row of MRQA."""
    for location, row in table.rows(() if _QAS in table.columns else required):
        if _QAS not in table.columns:
            yield location, row
            continue
        try:
            for number, question in enumerate(row.get(_QAS, ()), start=1):
                answers, context = question.get("answers"), row["context"]
                if is_training and "detected_answers" in question:
                    detected = question["detected_answers"]
                    edges = [(one["text"], *edge) for one in detected for edge in one["char_spans"]]
                    answers = [_detected(context, *edge) for edge in edges]
                qas_id = question.get("qid", question.get("id", f"{location.line}.{number}"))
                yield location, {**question, "context": context, "id": qas_id, "answers": answers}
        except (AttributeError, KeyError, TypeError) as e:
            needed = "each needs a question and, as in MRQA, detected_answers with char_spans"
            raise location.error(f"qas has other members; {needed}") from e


def _detected(context: str, text: str, start: int, last: int) -> dict[str, Any]:
    """Returns an answer of MRQA, where it has the offset of its last character."""
    part = context[start : last + 1]
    is_same = "".join(part.split()).casefold() == "".join(text.split()).casefold()
    return {"text": part if is_same else text, "answer_start": start}


def _answered(context: str, rows: Sequence[Row], is_training: bool, bad: BadRows) -> dict[str, Any]:
    """Returns the answers of a question, and perhaps whether it is unanswerable.

    Returns an empty dict if it has answers, and none can be used.
    """
    answers = [(line, answer) for line, row in rows for answer in _answers(line, row)]
    marks = {_is_impossible(*row) for row in rows} - {None}
    if not answers:
        return {"answers": [], "is_impossible": marks != {False}}
    usable = [
        usable_answer(context, answer, location, bad) if is_training else answer
        for location, answer in answers
    ]
    known = {"is_impossible": True in marks} if marks else {}
    return {"answers": list(filter(None, usable)), **known} if any(usable) else {}


def _answers(location: SourceLine, row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns a row's answers, with their starts if it has them."""
    if not _ANSWER & row.keys():
        raise location.error(f"answer is missing; found {columns(row)}")
    texts, starts = row.get("answer"), row.get("answer_start")
    if texts is None or texts == [] or (isinstance(texts, str) and not texts.strip()):
        texts = row.get("answers", texts)
    if isinstance(texts, str) and (made := _MADE_BY_PYTHON.fullmatch(texts.strip())):
        texts = python_literal(_ARRAY.sub("", made[0]), texts)
    if isinstance(texts, dict) and texts.keys() == {"text", "answer_start"}:
        texts, starts = texts["text"], texts["answer_start"]
    if texts is None:
        return []
    if not isinstance(texts, list):
        texts, starts = [texts], [starts]
    elif texts and all(isinstance(text, dict) and "text" in text for text in texts):
        texts, starts = ([text.get(key) for text in texts] for key in ("text", "answer_start"))
    starts = [None] * len(texts) if starts in (None, "", []) else starts
    if not isinstance(starts, list) or len(starts) != len(texts):
        raise location.error("answer_start must be a list with a number for each answer")
    answers = []
    for text, start in zip(texts, starts, strict=True):
        if not isinstance(text, str):
            raise location.error(
                f"answer must be a text, a list of texts or null, not {text!r:.40}"
            )
        if text.strip():
            number = _number(location, start)
            answers.append({"text": text} | ({} if number is None else {"answer_start": number}))
    return answers


def _is_impossible(location: SourceLine, row: Mapping[str, Any]) -> bool | None:
    """Returns whether a row says that its question is unanswerable; None if it does not say."""
    value = row.get("is_impossible")
    known = str(value).strip().lower()
    if known not in _TRUTH_VALUES:
        raise location.error(f"is_impossible must be true or false, not {value!r:.40}")
    return _TRUTH_VALUES[known]


def _number(location: SourceLine, value: Any) -> int | None:
    """Returns an answer_start; None if the cell is empty."""
    if value is None or value == "":
        return None
    number = 0.5
    # An integer of very many digits does not fit into a float.
    with contextlib.suppress(TypeError, ValueError, OverflowError):
        number = float(value)
    if isinstance(value, bool) or not number.is_integer():
        raise location.error(f"answer_start must be a whole number, not {value!r:.40}")
    return int(number)


def _text(location: SourceLine, row: Mapping[str, Any], name: str) -> str:
    """Returns the text in a column; "" if the row has no value."""
    value = row.get(name)
    if name == "id" and isinstance(value, int):
        return str(value)
    if value is not None and not isinstance(value, str):
        raise location.error(f"{name} must be a text, not {value!r:.40}")
    return value or ""
