"""Fetches a published model or a dataset.

  albert download model albert_base_v2
  albert download squad --version 1.1 --data_dir data/squad
  albert download race --data_dir data
  albert download glue --data_dir data/glue

`albert download model --help` explains the flags of one. A download that was stopped goes on where
it was when the same command is given again.
"""

from __future__ import annotations

import sys

from albert.cli.commands import HELP, Work, nearest
from albert.core.errors import FlagError
from albert.core.version import VERSION

WORK = Work("albert.commands.download", needs_tensorflow=False, resumes=True)
WORDS = ("model", "squad", "race", "glue")


def parse(argv: list[str]) -> list[str]:
    """Returns what to fetch, and its flags.

    Raises:
      FlagError: it is not known.
      SystemExit: help or the version was asked for, and printed.
    """
    words = argv[1:] or ["--help"]
    if words[0] == "--version":
        print(argv[0], VERSION)
    elif words[0] in HELP:
        print(__doc__, end="")
    elif words[0] not in WORDS:
        raise FlagError(
            f"{words[0]!r} is not one of {', '.join(WORDS)}{nearest(words[0], WORDS)} --help"
        )
    else:
        return words
    sys.exit(0)
