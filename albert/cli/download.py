"""Downloads a published model or a dataset.

  albert download model albert_base_v2
  albert download squad --version 1.1 --data_dir data/squad
  albert download race --data_dir data
  albert download glue --data_dir data/glue

`albert download model --help` explains the flags for a model. To resume a download that was
stopped, run the same command again.
"""

from __future__ import annotations

from albert.cli.main import parse_word

NEEDS_TENSORFLOW, RESUMES = False, True
WORDS = ("model", "squad", "race", "glue")


def parse(argv: list[str]) -> list[str]:
    """Returns the kind of download and its flags."""
    return parse_word(argv, __doc__, WORDS)


def main(words: list[str]) -> None:
    """Downloads what the words name; raises a `UserError` if it cannot be downloaded."""
    from albert.download import download

    download.main(words)
