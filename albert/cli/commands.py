"""The commands of `albert`, by what a person wants to do.

The module of a command, in `albert.cli`, has its help, `parse(argv)`, which returns what the
command line asks for without importing TensorFlow, and `WORK`, which does it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

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


def nearest(word: str, known: Iterable[str]) -> str:
    """Returns the middle of a message about a wrong word: which known ones are almost so."""
    import difflib

    near = difflib.get_close_matches(word, known)
    return f"; did you mean {' or '.join(near)}? See" if near else "; see"
