"""The command `albert`: finds the command that is named, and runs it."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Callable

from albert.cli.commands import COMMANDS, GROUPS, module_of
from albert.core.errors import FlagError
from albert.core.version import VERSION


def main() -> None:
    """Runs the command that the command line names."""
    words = sys.argv[1:]
    name = words[0] if words else "--help"
    if name in ("-h", "--help", "--helpfull", "--helpshort", "help"):
        with contextlib.suppress(BrokenPipeError):
            print(overview(), flush=True)
    elif name == "--version":
        print("albert", VERSION)
    elif name in COMMANDS:
        sys.argv = [f"albert {name}", *words[1:]]
        run(name)
    else:
        sys.argv[0] = "albert"
        _end_unknown(name)


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
        del argv
        importlib.import_module(module.WORK.module).main(asked)

    return main


def run(name: str) -> None:
    """Runs a command with the arguments in `sys.argv`.

    Its flags are looked at before what takes time is imported: `--help`, `--version` and mistakes
    wait for nothing.
    """
    module = importlib.import_module(module_of(name))
    # What the terminal cannot show is no reason to end.
    sys.stdout.reconfigure(errors="backslashreplace")
    try:
        asked = module.parse(list(sys.argv))
    except FlagError as e:
        from albert.distributed.failure import fail

        fail(str(e), e.exit_code)
    except BrokenPipeError:
        # Nobody reads the help any more.
        os._exit(0)
    from albert.cli import app

    app.run(module.WORK, asked)


def overview() -> str:
    """Returns the list of commands."""
    lines = ["usage: albert COMMAND [FLAGS]; albert COMMAND --help explains a command", ""]
    for group, commands in GROUPS.items():
        lines += [f"{group}:"]
        lines += [f"  {name:<18}{summary}" for name, summary in commands.items()]
        lines += [""]
    return "\n".join(lines[:-1])


def _end_unknown(name: str) -> None:
    import difflib

    from albert.distributed.failure import fail

    near = difflib.get_close_matches(name, COMMANDS)
    advice = f"did you mean {' or '.join(near)}? See" if near else "see"
    fail(f"{name!r} is not a command; {advice} albert --help", 2)
