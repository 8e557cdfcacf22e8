r"""Checks a file of questions, labels or entities before a training, or converts it.

  albert data check questions.csv
  albert data convert questions.csv questions.json [--on_bad_row=skip]
  albert data convert export.json entities.jsonl

"check" shows what a training would use of the file, and some examples, and fails if a training
would skip or refuse rows. "convert" writes questions as SQuAD's JSON, and entities as JSON with
spans. docs/data.md has the formats. Both read a table of questions row by row and keep only its
ids, so it may be larger than the memory.
"""

from __future__ import annotations

import json
import os

from albert.cli import command_line, require_standard_output
from albert.core.errors import FlagError, UserError
from albert.core.files import check_new, check_readable, open_atomically, temporary_name
from albert.core.text import printable
from albert.report.terminal import style_of_output, width_of_output, wrapped
from albert.settings.fields import OWN, redefined, setting
from albert.tables.bad_rows import ERROR, BadRows
from albert.tables.kinds import ENTITIES, KINDS, LABELS, look_of, standoff_files
from albert.tables.overview import Overview
from albert.tables.tables import open_table
from albert.tasks.entities import overview as entities
from albert.tasks.entities.annotation_exports import open_annotated
from albert.tasks.entities.annotations import write_annotated
from albert.tasks.entities.settings import INCLUSIVE, FormatSettings
from albert.tasks.glue import overview as labels
from albert.tasks.glue.label_tables import COLUMNS, find_columns
from albert.tasks.glue.settings import TableSettings
from albert.tasks.squad import overview as questions
from albert.tasks.squad.questions import Questions, QuestionSource, articles_of
from albert.tasks.squad.settings import SquadSettings

NEEDS_TENSORFLOW = False
CHECK, CONVERT = WORDS = ("check", "convert")
_NAME = 18  # width of the column of names
_LABEL_FLAGS = {*COLUMNS, "label_columns", "multi_label", "tsv_regression"}


class DataSettings(FormatSettings, TableSettings):
    """The kind of a file, and the flags of a training on it."""

    kind: str = setting(
        "", "What `check` reads. Default: what the first rows look like.", choices=("", *KINDS)
    )
    num_examples: int = setting(5, "Number of examples that `check` shows.", lower=0)
    on_bad_row: str = redefined(
        SquadSettings,
        "on_bad_row",
        ERROR,
        help="What to do with rows that cannot be used: error ends the command; skip skips them. "
        "For questions, first and lenient also skip them, but use some answers, see docs/data.md.",
        theme=OWN,
    )


SETTINGS = DataSettings


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
    if not (os.path.isdir(path) and standoff_files(path)):
        check_readable(path, "file")
    look = look_of(path)
    kind = settings.kind or (LABELS if settings.given & _LABEL_FLAGS else look.kind)
    if look.name and not kind:
        raise UserError(f"{path} looks like {look.advice}")
    if word == CONVERT:
        check_new(target[0])
        if kind == ENTITIES:
            convert_entities(path, target[0], settings)
        else:
            convert(Questions(QuestionSource(path, settings.on_bad_row)), target[0])
        return
    settings, why_no_labels = settings.checked(), ""
    if kind == LABELS:
        # A test set has no labels.
        settings = find_columns(open_table(path), settings, settings.given, is_labeled=None)
    elif not kind:
        try:
            settings, kind = find_columns(open_table(path), settings, settings.given), LABELS
        except UserError as e:
            why_no_labels = str(e).removeprefix(f"{path}: ")
    overview = Overview(path, settings.num_examples, settings.on_bad_row)
    try:
        if kind == LABELS:
            labels.fill(overview, settings)
        elif kind == ENTITIES:
            entities.fill(overview, settings)
        else:
            # Also an unknown kind, which gets the message of a file of questions.
            questions.fill(overview)
    except UserError as e:
        if not why_no_labels:
            raise
        raise UserError(f"{e}; for labels: {why_no_labels}") from e
    check(overview, path)


def check(overview: Overview, path: str) -> None:
    """Prints an overview; raises a `UserError` for bad rows that are not skipped."""
    print(f"{path}: {overview.format}")
    for name, value in overview.counts:
        _print_row(name, value)
    for note, count in overview.bad.notes.items():
        _print_row("note", printable(f"{note}: {count:,}"))
    overview.bad.notes.clear()
    width, style = width_of_output() - _NAME - 2, style_of_output()
    for number, (title, lines) in enumerate(overview.examples, start=1):
        print(f"\nexample {number}, {title}")
        for name, text, marks in lines:
            for row, line in enumerate(wrapped(printable(text), marks, width, style)):
                _print_row("" if row else name, line)
    overview.bad.finish()
    if overview.problem:
        raise UserError(f"{path}: {overview.problem}")


def convert_entities(path: str, target: str, settings: DataSettings) -> None:
    """Writes annotated texts as JSON with spans; raises a `UserError` if they are not valid."""
    bad = BadRows(path, settings.on_bad_row)
    texts = open_annotated(path, settings=settings).read((), bad)
    bad.finish()
    with temporary_name(target) as name:
        write_annotated(name, texts, (text.spans for text in texts))
    spans = f"{sum(len(text.spans) for text in texts):,} entities"
    ends = "; their ends are now after their last characters" * (settings.offsets == INCLUSIVE)
    print(f"{target}: {len(texts):,} texts, {spans}{ends}")


def convert(source: Questions, target: str) -> None:
    """Writes questions as SQuAD's JSON; raises a `UserError` if they are not valid."""
    path = source.path
    if source.is_squad:
        raise UserError(f"{path} is SQuAD's JSON already, and not a table or another form")
    # A check of the new file would refuse questions without answers among others.
    every = (q for p in source.paragraphs(bad=source.bad_rows()) for q in p.questions)
    marks = {(bool(q.get("answers")), bool(q.get("is_impossible"))) for q in every}
    needs_answers = any(has for has, _ in marks) and not any(none for _, none in marks)
    count = is_version_2 = 0
    with open_atomically(target) as file:
        mark = '{"data": [\n'
        bad = source.bad_rows(is_strict=True)
        paragraphs = questions.consistent(source.paragraphs(True, bad), bad, needs_answers)
        for article in articles_of(paragraphs):
            file.write(mark + json.dumps(article))
            mark = ",\n"
            for question in (q for p in article["paragraphs"] for q in p["qas"]):
                count += 1
                is_version_2 |= "is_impossible" in question
        bad.finish()
        if not count:
            raise UserError(f"{path} has no usable questions")
        file.write(f'\n], "version": "{"v2.0" if is_version_2 else "1.1"}"}}\n')
    print(f"{target}: {count:,} questions")


def _print_row(name: str, value: str) -> None:
    print(f"  {name:<{_NAME}}{value}")
