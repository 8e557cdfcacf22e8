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

from albert.cli import command_line, require_standard_output
from albert.core.errors import FlagError, UserError
from albert.core.files import check_regular, open_atomically
from albert.core.text import printable
from albert.data.bad_rows import ERROR, ON_BAD_ROW
from albert.data.overview import Overview
from albert.report.terminal import style_of_output, width_of_output, wrapped
from albert.settings.fields import Settings, setting
from albert.tasks.squad.check import overview_of
from albert.tasks.squad.questions import Questions, QuestionSource, articles_of

NEEDS_TENSORFLOW = False
CHECK, CONVERT = WORDS = ("check", "convert")
_NAME = 18  # width of the column of names


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
        check(overview_of(questions, settings.num_examples), path)
    else:
        convert(questions, target[0])


def check(overview: Overview, path: str) -> None:
    """Prints an overview; raises a `UserError` for bad rows that are not skipped."""
    print(f"{path}: {overview.format}")
    for name, value in overview.counts:
        _print_row(name, value)
    width, style = width_of_output() - _NAME - 2, style_of_output()
    for number, (title, lines) in enumerate(overview.examples, start=1):
        print(f"\nexample {number}, {title}")
        for name, text, marks in lines:
            for row, line in enumerate(wrapped(printable(text), marks, width, style)):
                _print_row("" if row else name, line)
    overview.bad.finish()


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


def _print_row(name: str, value: str) -> None:
    print(f"  {name:<{_NAME}}{value}")
