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

from albert.cli.main import parse_word

NEEDS_TENSORFLOW, RESUMES = False, True
WORDS = ("model", "squad", "race", "glue")


def parse(argv: list[str]) -> list[str]:
    """Returns the kind of download and its flags."""
    from albert.download.named_model import is_hub_name
    from albert.download.published import MODELS

    names = [word for word in argv[1:2] if is_hub_name(word) or word in MODELS]
    return parse_word(argv, __doc__, WORDS, names)


def main(words: list[str]) -> None:
    """Downloads what the words name; raises a `UserError` if it cannot be downloaded."""
    from albert.download import command

    command.main(words)
