"""The command `albert`: the list of commands, and how one of them is found and run.

The module of a command, in `albert.cli`, has its help, `parse(argv)`, which returns what the
command line asks for without importing TensorFlow, and `ENTRY_POINT`, which does it.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from albert.core.errors import FlagError, see_help
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


class EntryPoint(NamedTuple):
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
        advice = see_help(given[0], words)
        raise FlagError(f"{given[0]!r} is not one of {', '.join(words)}{advice}")
    else:
        return given
    sys.exit(0)


def main() -> None:
    """Runs the command that the command line names."""
    words = sys.argv[1:] or ["--help"]
    if words[0] in HELP and words[1:] and words[1] in COMMANDS:
        # "albert help squad", as others have it.
        words = [words[1], "--help"]
    name = words[0]
    if name in HELP or name == "--version":
        with _printing():
            print(overview() if name in HELP else f"albert {VERSION}", flush=True)
    elif name in COMMANDS:
        sys.argv = [f"albert {name}", *words[1:]]
        run(name)
    else:
        sys.argv[0] = "albert"
        from albert.distributed.failure import fail

        advice = see_help(name, [*COMMANDS, "help"], "albert --help")
        fail(f"{name!r} is not a command{advice}", 2)


def run_program(name: str, *words: str) -> None:
    """Runs a command as a program of the reference, with words before those of its command line."""
    sys.argv[1:1] = words
    run(name)


def imported_program(name: str, *words: str) -> Callable[[list[str] | None], None]:
    """Defines the flags of a program of the reference; returns its main function.

    It is called once the flags have their values, as by `tf.compat.v1.app.run`.
    """
    module = importlib.import_module(module_of(name))
    asked = module.define(*words)

    def main(argv: list[str] | None = None) -> None:
        from albert.core import signals

        del argv
        signals.install(module.ENTRY_POINT.resumes)
        importlib.import_module(module.ENTRY_POINT.module).main(asked())

    return main


def run(name: str) -> None:
    """Runs a command with the arguments in `sys.argv`.

    Its flags are looked at before what takes time is imported: `--help`, `--version` and mistakes
    wait for nothing.
    """
    module = importlib.import_module(module_of(name))
    # What the terminal cannot show is no reason to end.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    with _printing():
        try:
            asked = module.parse(list(sys.argv))
        except FlagError as e:
            from albert.distributed.failure import fail

            fail(str(e), e.exit_code)
        except SystemExit:
            # Help was asked for: what cannot be written is no success.
            sys.stdout.flush()
            raise
    from albert.cli import lifecycle

    lifecycle.run(module.ENTRY_POINT, asked)


def overview() -> str:
    """Returns the list of commands."""
    lines = ["usage: albert COMMAND [FLAGS]; albert COMMAND --help explains a command", ""]
    for group, commands in GROUPS.items():
        lines += [f"{group}:"]
        lines += [f"  {name:<18}{summary}" for name, summary in commands.items()]
        lines += [""]
    return "\n".join(lines[:-1])


@contextlib.contextmanager
def _printing() -> Iterator[None]:
    """Ends the program where what it prints is not read any more, or cannot be written."""
    try:
        yield
    except BrokenPipeError:
        os._exit(0)
    except OSError as e:
        from albert.distributed.failure import say

        say(f"{e.filename or 'standard output'}: {e.strerror}")
        os._exit(1)
