r"""Checks a file of questions before a training, or converts it to SQuAD's JSON.

  albert data check questions.csv
  albert data convert questions.csv questions.json [--on_bad_row=skip]

The file is SQuAD's JSON, or a table in CSV, TSV or JSON Lines with the columns context, question
and answer, and optionally answer_start, id and title. "check" shows what a training would use, and
some examples. Both read a table row by row and keep only its ids, so it may be larger than the
memory.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from typing import Any

from albert.cli import command_line, require_standard_output
from albert.core.errors import FlagError, UserError
from albert.core.files import check_regular, open_atomically
from albert.core.text import printable
from albert.report.terminal import style_of_output, width_of_output, wrapped
from albert.settings.fields import Settings, setting
from albert.tasks.squad import ERROR, ON_BAD_ROW
from albert.tasks.squad.question_tables import COLUMNS
from albert.tasks.squad.questions import Paragraph, Questions, QuestionSource, articles_of

NEEDS_TENSORFLOW = False
CHECK, CONVERT = WORDS = ("check", "convert")
# Number of characters of a context to show before and after the answer's first one, and half the
# number of those of a question or answer.
_SHOWN = 200
_NAME = 18  # width of the column of names

_Question = tuple[str, dict[str, Any]]


class DataSettings(Settings):
    """How to use the rows of a table."""

    on_bad_row: str = setting(
        ERROR,
        "What to do with rows that cannot be used: error ends the command; skip skips them; first "
        "also skips them, but uses the first place of an answer that occurs several times in its "
        "context.",
        choices=ON_BAD_ROW,
    )
    num_examples: int = setting(5, "Number of examples that `check` shows.", lower=0)


def parse(argv: list[str]) -> tuple[DataSettings, list[str]]:
    """Returns settings, and first word and files; raises a `FlagError` if a word does not fit."""
    words = command_line.parse(argv, __doc__, DataSettings, arguments=True)
    if words[:1] not in ([CHECK], [CONVERT]):
        raise FlagError(f"pass {CHECK} or {CONVERT} before the file; see --help")
    if len(words) != (2 if words[0] == CHECK else 3):
        needed = "one file" if words[0] == CHECK else "a file and the name of a new file"
        raise FlagError(f"{words[0]} needs {needed}; see --help")
    return DataSettings.from_flags(), words


def main(request: tuple[DataSettings, list[str]]) -> None:
    """Checks or converts a file; raises a `UserError` for an invalid file or unskipped bad rows."""
    require_standard_output()
    settings, (word, path, *target) = request
    questions = Questions(QuestionSource(path, settings.on_bad_row))
    if word == CHECK:
        check(questions, settings.num_examples)
    else:
        convert(questions, target[0])


def check(questions: Questions, num_examples: int) -> None:
    """Prints the format, the columns, the counts of questions, and the first examples."""
    table, bad = questions.table, questions.bad_rows()
    print(f"{questions.path}: {table.format if table else 'SQuAD JSON'}")
    if table:
        _print_row("columns used", ", ".join(n for n in COLUMNS if n in table.columns))
        ignored = ", ".join(n for n in table.columns if n and n not in COLUMNS)
        _print_row("columns ignored", printable(ignored) or "none")
    examples: list[_Question] = []
    # Without answers, the questions can only be predicted.
    is_training = bool(table and {"answer", "answers"} & {*table.columns})
    for name, value in _counted(questions.paragraphs(is_training, bad), num_examples, examples):
        _print_row(name, value)
    for number, (context, question) in enumerate(examples, start=1):
        print(f"\nexample {number}, id {printable(question['id'])}")
        for line in _lines_of(context, question):
            print(line)
    bad.finish()


def convert(source: Questions, target: str) -> None:
    """Writes a table's questions as SQuAD's JSON; raises a `UserError` if it is not valid."""
    path = source.path
    if os.path.isdir(target):
        raise UserError(f"{target} is a folder; name a file")
    if os.path.exists(target) and os.path.samefile(path, target):
        raise UserError(f"{target} is the table itself; name another file")
    check_regular(target, target)
    if os.path.lexists(target):
        raise UserError(f"{target} already exists; give another name, or remove it")
    if not source.table:
        raise UserError(f"{path} is JSON already, and not a table in CSV, TSV or JSON Lines")
    questions = is_version_2 = 0
    with open_atomically(target) as file:
        mark = '{"data": [\n'
        for article in articles_of(source.checked(is_training=True)):
            file.write(mark + json.dumps(article))
            mark = ",\n"
            for question in article["paragraphs"][0]["qas"]:
                questions += 1
                is_version_2 |= "is_impossible" in question
        if not questions:
            raise UserError(f"{path} has no usable questions")
        file.write(f'\n], "version": "{"v2.0" if is_version_2 else "1.1"}"}}\n')
    print(f"{target}: {questions:,} questions")


def _counted(
    paragraphs: Iterable[Paragraph], num_examples: int, examples: list[_Question]
) -> Iterator[tuple[str, str]]:
    """Yields names and values about questions, and adds the first ones to `examples`."""
    total = contexts = unanswerable = several = unknown = 0
    last = None
    for paragraph in paragraphs:
        if paragraph.questions:
            contexts += paragraph.context != last
            last = paragraph.context
        for question in paragraph.questions:
            total += 1
            answers = question.get("answers")
            unanswerable += bool(question.get("is_impossible"))
            unknown += answers is None
            several += len(answers or ()) > 1
            if len(examples) < num_examples:
                examples.append((paragraph.context, question))
    yield "contexts", f"{contexts:,}"
    yield "questions", f"{total:,}"
    if unanswerable:
        yield "unanswerable", f"{unanswerable:,}; train with `albert squad 2.0`"
    if several:
        yield "several answers", f"{several:,}; only for --predict_file"
    if unknown:
        yield "without answers", f"{unknown:,}; only for --predict_file"


def _lines_of(context: str, question: dict[str, Any]) -> Iterator[str]:
    """Yields the lines that show a question and the part of the context with its answer."""
    answers = question.get("answers")
    # Only a training checks the starts in SQuAD's JSON.
    offsets = [
        (start if isinstance(start := a.get("answer_start"), int) else context.find(text), text)
        for a in answers or ()
        for text in (a["text"],)
    ]
    first = max(0, offsets[0][0] if offsets else 0)
    begin = max(0, first - _SHOWN)
    shown = ((start - begin, text) for start, text in offsets if start >= begin)
    marks = [(start, start + len(text), "answer") for start, text in shown]
    part = printable(context[begin : first + _SHOWN])
    texts = " | ".join(answer["text"] for answer in answers or ())
    said = "unknown" if answers is None else texts or "no answer"
    for name, text, text_marks in (
        ("question", printable(question["question"][: 2 * _SHOWN]), []),
        ("answer", printable(said[: 2 * _SHOWN]), []),
        ("context", part, marks),
    ):
        width = width_of_output() - _NAME - 2
        for number, line in enumerate(wrapped(text, text_marks, width, style_of_output())):
            print_name = "" if number else name
            yield f"  {print_name:<{_NAME}}{line}"


def _print_row(name: str, value: str) -> None:
    print(f"  {name:<{_NAME}}{value}")
