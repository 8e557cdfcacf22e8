"""The commands of `albert`, by what a person wants to do.

The module of a command, in `albert.cli`, has its help, `parse(argv)`, which returns what the
command line asks for without importing TensorFlow, and `WORK`, which does it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from albert.core.errors import FlagError
from albert.core.version import VERSION

GROUPS = {
    "train a model": {
        "squad": "questions on texts: SQuAD 1.1, SQuAD 2.0 or your own",
        "classify": "labels of texts: GLUE or your own",
        "race": "questions with four options: RACE",
        "pretrain": "masked words and the order of sentences",
    },
    "use a model": {
        "ask": "ask it questions on texts, or for the label of a text",
        "serve": "answer over HTTP",
        "embed": "write embeddings of texts",
        "convert": "take its weights from Hugging Face's transformers, or there",
    },
    "look at what it does": {
        "evaluate": "score predictions, compare two systems, sum up runs",
        "show": "show predictions beside what is true",
    },
    "prepare": {
        "demo": "train, predict and score on a made-up sample",
        "download": "fetch a model or a dataset",
        "check": "check a job before a card is booked",
        "compare-devices": "compare what a card computes with the CPU",
        "pretraining-data": "make records for pretraining from text",
        "sentencepiece": "train a SentencePiece model on text",
        "completion": "complete commands and flags in bash or zsh",
    },
}
HELP = ("-h", "--help", "-help", "--helpfull", "--helpshort", "help")
COMMANDS = [name for group in GROUPS.values() for name in group]


class Work(NamedTuple):
    """What a command does once its command line is parsed.

    Attributes:
      module: has `main(asked)`, which is called with what `parse` has returned.
      needs_tensorflow: imports TensorFlow before.
      resumes: whether the same command goes on where this one is stopped by a signal.
    """

    module: str
    needs_tensorflow: bool = True
    resumes: bool = False


def module_of(name: str) -> str:
    """Returns the module of a command."""
    return f"albert.cli.{name.replace('-', '_')}"


def parse_word(
    argv: list[str], text: str, words: Sequence[str], unlisted: Sequence[str] = ()
) -> list[str]:
    """Returns the arguments of a command line whose first one is one of some words.

    Args:
      argv: the command line.
      text: the help.
      words: that the first argument may be.
      unlisted: others, which no message names.

    Raises:
      FlagError: it is none of them.
      SystemExit: help or the version was asked for, and printed.
    """
    given = argv[1:] or ["--help"]
    if given[0] == "--version":
        print(argv[0], VERSION)
    elif given[0] in HELP:
        print(text, end="")
    elif given[0] not in (*words, *unlisted):
        advice = nearest(given[0], words)
        raise FlagError(f"{given[0]!r} is not one of {', '.join(words)}{advice} --help")
    else:
        return given
    sys.exit(0)


def nearest(word: str, known: Iterable[str]) -> str:
    """Returns the middle of a message about a wrong word: which known ones are almost so."""
    import difflib

    near = difflib.get_close_matches(word, known)
    return f"; did you mean {' or '.join(near)}? See" if near else "; see"
