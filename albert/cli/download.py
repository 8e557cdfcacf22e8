"""Downloads a published model or a dataset.

  albert download model albert_base_v2
  albert download squad --version 1.1 --data_dir data/squad
  albert download race --data_dir data
  albert download glue --data_dir data/glue
  albert download google/bert_uncased_L-2_H-128_A-2

The last one is the name of a model on the Hugging Face hub, with @REVISION if you like; it needs
the package huggingface_hub. The model goes where --model=NAME finds it, which is what a login node
without a card needs. A name such as albert_base_v2 works, too.
`albert download model --help` explains the flags for a model. To resume a download that was
stopped, run the same command again.
"""

from __future__ import annotations

import sys

from albert.cli.main import HELP
from albert.core.errors import FlagError, see_help
from albert.core.version import VERSION

NEEDS_TENSORFLOW, RESUMES = False, True
WORDS = ("model", "squad", "race", "glue")


def parse(argv: list[str]) -> list[str]:
    """Returns the kind of download, or the name of a model, and the flags after it."""
    from albert.download.named_model import is_hub_name
    from albert.download.published import MODELS

    words = argv[1:] or ["--help"]
    if words[0] in (*WORDS, *MODELS) or is_hub_name(words[0]):
        return words
    if words[0] not in ("--version", *HELP):
        advice = see_help(words[0], WORDS)
        raise FlagError(f"{words[0]!r} is not one of {', '.join(WORDS)}{advice}")
    # With PYTHONOPTIMIZE=2, there is no docstring.
    text = (__doc__ or ", ".join(WORDS)).strip()
    print(f"{argv[0]} {VERSION}" if words[0] == "--version" else text)
    sys.exit(0)


def main(words: list[str]) -> None:
    """Downloads what the words name; raises a `UserError` if it cannot be downloaded."""
    from albert.download import command

    command.main(words)
