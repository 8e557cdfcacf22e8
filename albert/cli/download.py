"""Fetches a published model or a dataset.

  albert download model albert_base_v2
  albert download squad --version 1.1 --data_dir data/squad
  albert download race --data_dir data
  albert download glue --data_dir data/glue

`albert download model --help` explains the flags of one. A download that was stopped goes on where
it was when the same command is given again.
"""

from __future__ import annotations

from albert.cli.main import EntryPoint, parse_word

ENTRY_POINT = EntryPoint("albert.commands.download", needs_tensorflow=False, resumes=True)
WORDS = ("model", "squad", "race", "glue")


def parse(argv: list[str]) -> list[str]:
    """Returns the kind of thing to fetch, and its flags.

    Raises:
      FlagError: it is not known.
      SystemExit: help or the version was asked for, and printed.
    """
    return parse_word(argv, __doc__, WORDS)
