"""Running a program: its flags, then itself.

TensorFlow is imported when the flags are parsed, so that `--help` and what is wrong with them need
not wait for it.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from typing import Any

from absl import app

from albert import cli
from albert.cli.ending import run_main
from albert.core import signals
from albert.core.errors import FlagError, UserError
from albert.distributed.failure import fail
from albert.settings.flags import parse, require_parsed


def run(
    main: Callable[[Any], None],
    parse_arguments: Callable[[list[str]], Any] = parse,
    needs_tensorflow: bool = True,
) -> None:
    """Runs `main` with what `parse_arguments` makes of the command line: what is left beside flags.

    A program without flags parses all of it itself, with a `FlagError` for what is wrong.

    Errors of the input, the flags or the environment end the program with one line on standard
    error and exit code 2 (flags) or 1 (the rest). Anything else is a bug and shows its traceback.
    """
    # What the terminal cannot show is no reason to end.
    sys.stdout.reconfigure(errors="backslashreplace")
    app.run(
        lambda arguments: _run_main(main, arguments, needs_tensorflow),
        flags_parser=lambda argv: _parsed(argv, parse_arguments),
    )


def require_standard_output() -> None:
    """Raises a `UserError` if what is printed would be lost."""
    if "stdout" in cli.closed_streams:
        raise UserError("standard output is closed: what is found could not be printed")


def _run_main(main: Callable[[Any], None], arguments: Any, needs_tensorflow: bool) -> None:
    signals.install()
    if needs_tensorflow:
        _require_temporary_folder()
        # What its import makes stays; to look for garbage in it takes a sixth of the import.
        gc.disable()
        import tensorflow.compat.v1  # noqa: F401

        gc.freeze()
        gc.enable()
    run_main(main, arguments)


def _require_temporary_folder() -> None:
    """Ends the program where no file can be written; TensorFlow's import needs a folder."""
    import tempfile

    try:
        tempfile.gettempdir()
    except FileNotFoundError as e:
        fail(f"{e.strerror}: make room, or let TMPDIR name a folder with some", 1)


def _parsed(argv: list[str], parse_arguments: Callable[[list[str]], Any]) -> Any:
    try:
        arguments = parse_arguments(argv)
        require_parsed(argv[0])
        return arguments
    except FlagError as e:
        fail(str(e), 2)
    except BrokenPipeError:
        # Nobody reads the help any more.
        os._exit(0)
