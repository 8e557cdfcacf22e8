"""The command `albert`: lists the commands, and finds and runs one of them.

Each command has a module in `albert.cli`: its help, its flags, and `main(request)`, which runs it.
The request is an object of the module's `SETTINGS`; with `TAKES_ARGUMENTS = True`, it is that and
the list of the arguments that are not flags. A module with other requests has `parse(argv)`, which
makes one of a command line. Only `main` imports TensorFlow. With `NEEDS_TENSORFLOW = False`, it is
not imported before `main`. With `RESUMES = True`, the same command resumes the work after a signal
has stopped it. A `TaskCommand` takes the place of the module for the commands of `albert.tasks`.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

from albert.core import installation
from albert.core.errors import FlagError, UserError, see_help
from albert.core.version import VERSION
from albert.tasks import TASKS, versions_of

# Commands with their lines in the list of commands.
GROUPS = {
    "train a model": {entry.command: entry.summary for entry in TASKS},
    "use a model": {
        "ask": "ask questions about texts, or for the labels of texts or entities",
        "predict": "label the rows of a file with a trained model",
        "serve": "serve the model over HTTP",
        "embed": "write embeddings of texts",
        "convert": "convert weights to or from Hugging Face's transformers, or to ONNX",
        "quantize": "write a model in int8, which answers faster on CPUs",
    },
    "inspect results": {
        "evaluate": "score predictions, compare two systems, summarize runs",
        "show": "show predictions next to the true answers",
    },
    "prepare": {
        "demo": "train, predict and score on a made-up sample",
        "download": "download a model or a dataset",
        "data": "check a file of questions, labels or entities, or convert it",
        "check": "check a job's files, memory and duration before you start it",
        "compare-devices": "compare the results of a card with those of the CPU",
        "pretraining-text": "make text for pretraining from texts, JSON Lines and Parquet",
        "pretraining-data": "make pretraining records from text files",
        "sentencepiece": "train a SentencePiece model on text files",
    },
}
HELP = ("-h", "--help", "-help", "--helpfull", "--helpshort", "help")
COMMANDS = [name for group in GROUPS.values() for name in group]


def command_of(name: str) -> Any:
    """Imports the module of a command, or returns the `TaskCommand` of a task."""
    if versions_of(name):
        from albert.cli.training import TaskCommand

        return TaskCommand(name)
    return importlib.import_module(f"albert.cli.{name.replace('-', '_')}")


def main() -> None:
    """Runs the command that the command line names."""
    words = sys.argv[1:] or ["--help"]
    if words[0] in HELP and words[1:] and words[1] in COMMANDS:
        # "albert help squad" also works, as in other programs.
        words = [words[1], "--help"]
    name = words[0]
    if name in COMMANDS:
        sys.argv = [f"albert {name}", *words[1:]]
        run(name)
        return
    sys.argv[0] = "albert"
    with _starting():
        if name not in HELP and name != "--version":
            advice = see_help(name, [*COMMANDS, "help"], "albert --help")
            raise FlagError(f"{name!r} is not a command{advice}")
        print(overview() if name in HELP else f"albert {VERSION}", flush=True)


def run_program(name: str, *words: str) -> None:
    """Runs a command under the reference's program name; `words` precede the arguments."""
    sys.argv[1:1] = words
    run(name)


def program_of(module: str, name: str, *words: str) -> Callable[[list[str] | None], None]:
    """Runs a command under the reference's program name if `module` is "__main__".

    Otherwise, defines its flags, and returns its main function for `tf.compat.v1.app.run`.
    """
    if module == "__main__":
        run_program(name, *words)
    command = command_of(name)
    request = command.define(*words)

    def main(argv: list[str] | None = None) -> None:
        from albert.core import signals

        signals.install(command.RESUMES)
        command.main(request())

    return main


def run(name: str) -> None:
    """Runs a command with the arguments in `sys.argv`; parses its flags before any slow import."""
    with _starting():
        from albert.cli import command_line

        command = command_of(name)
        # A character that the terminal cannot show must not end the program.
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")
        try:
            request = command_line.request_of(command, list(sys.argv))
        except SystemExit:
            # If the help cannot be written, the program has failed.
            sys.stdout.flush()
            raise
    from albert.cli import lifecycle

    lifecycle.run(command, request)


def overview() -> str:
    """Returns the list of commands."""
    lines = [
        "usage: albert COMMAND [FLAGS]",
        "",
        "albert COMMAND --help explains a command.",
        "In the names of flags, hyphens and underscores are the same.",
        "",
    ]
    for group, commands in GROUPS.items():
        lines += [f"{group}:"]
        lines += [f"  {name:<18}{summary}" for name, summary in commands.items()]
        lines += [""]
    return "\n".join(lines[:-1])


@contextlib.contextmanager
def _starting() -> Iterator[None]:
    """Ends the program on a system that cannot run it, and at a wrong command line.

    Also ends it if nothing reads its help any longer, or if that cannot be written.
    """
    try:
        installation.check()
        yield
    except UserError as e:
        from albert.distributed.launcher import fail

        fail(str(e), e.exit_code)
    except BrokenPipeError:
        os._exit(0)
    except OSError as e:
        from albert.distributed.launcher import say

        say(f"{e.filename or 'standard output'}: {e.strerror}")
        os._exit(1)
