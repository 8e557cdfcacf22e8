r"""Checks a file of questions before a training, or converts it to SQuAD's JSON.

  albert data check questions.csv
  albert data convert questions.csv questions.json [--on_bad_row=skip]

The file is SQuAD's JSON, or a table in CSV, TSV or JSON Lines with the columns context, question
and answer, and optionally answer_start, id and title. "check" shows what a training would use, and
some examples. Both read a table row by row and keep only its ids, so it may be larger than the
memory.
"""

from __future__ import annotations

from albert.cli import command_line
from albert.cli.main import EntryPoint
from albert.core.errors import FlagError
from albert.settings.fields import Settings, setting
from albert.tasks.squad import ERROR, ON_BAD_ROW

ENTRY_POINT = EntryPoint("albert.commands.data", needs_tensorflow=False)
CHECK, CONVERT = WORDS = ("check", "convert")


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
