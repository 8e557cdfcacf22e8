"""Runs a command between its command line and its end."""

from __future__ import annotations

import gc
import importlib
import sys
import tempfile
from typing import Any

from absl import app, flags

from albert.cli.commands import Work
from albert.cli.ending import run_main
from albert.core import signals
from albert.distributed.failure import fail


def run(work: Work, asked: Any) -> None:
    """Runs a command with what its command line asks for.

    Errors of the input or the environment end the program with one line on standard error and exit
    code 2 (flags) or 1 (the rest). Anything else is a bug and shows its traceback.
    """
    # A job is to end well also while it imports TensorFlow, which takes seconds.
    signals.install(work.resumes)
    if not flags.FLAGS.is_parsed():
        # absl needs it, also of a command that has arguments of its own kind.
        flags.FLAGS(sys.argv[:1])
    app.run(lambda argv: _run_main(work, asked), flags_parser=lambda argv: argv)


def _run_main(work: Work, asked: Any) -> None:
    if work.needs_tensorflow:
        _require_temporary_folder()
        # What its import makes stays; to look for garbage in it takes a sixth of the import.
        gc.disable()
        import tensorflow.compat.v1  # noqa: F401

        gc.freeze()
        gc.enable()
    run_main(lambda argument: importlib.import_module(work.module).main(argument), asked)


def _require_temporary_folder() -> None:
    """Ends the program where no file can be written; TensorFlow's import needs a folder."""
    try:
        tempfile.gettempdir()
    except FileNotFoundError as e:
        fail(f"{e.strerror}: make room, or let TMPDIR name a folder with some", 1)
