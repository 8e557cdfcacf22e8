"""The command `albert`: finds the command that is named, and runs it."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import sys
from collections.abc import Callable, Iterator

from albert.cli.commands import COMMANDS, GROUPS, HELP, module_of, nearest
from albert.core.errors import FlagError
from albert.core.version import VERSION


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

        fail(f"{name!r} is not a command{nearest(name, [*COMMANDS, 'help'])} albert --help", 2)


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
        signals.install(module.WORK.resumes)
        importlib.import_module(module.WORK.module).main(asked())

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

    lifecycle.run(module.WORK, asked)


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
