"""The life of a program after its flags are parsed: its log, its errors and exit codes."""

from __future__ import annotations

import gc
import importlib
import logging
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from typing import Any

from absl import app, flags

from albert.cli.main import EntryPoint
from albert.core import locks, signals
from albert.core.errors import NO_UTF8, UserError
from albert.core.log import LOG, make_handler
from albert.distributed import launcher
from albert.distributed.failure import REPEATED_AFTER, fail, say


def run(work: EntryPoint, asked: Any) -> None:
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


def _run_main(work: EntryPoint, asked: Any) -> None:
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


def run_main(main: Callable[[Any], None], argv: Any) -> None:
    """Runs `main`, and ends the program as its errors and signals ask for, see `run`."""
    quieten_tensorflow()
    signals.raise_stopped()
    try:
        failure = _failure_of(main, argv)
    except signals.Stopped as e:
        _end_stopped(e)
    signals.uninstall()
    # Only now, when nothing of what `main` was in the middle of is left to be cleaned up.
    if failure:
        fail(*failure)


def _failure_of(main: Callable[[Any], None], argv: Any) -> tuple[str, int] | None:
    """Runs `main`; what to say if it fails, and the exit code."""
    try:
        main(argv)
        # What cannot be written is no success.
        sys.stdout.flush()
    except UserError as e:
        return str(e), e.exit_code
    except BrokenPipeError:
        # Nobody reads any more; what Python would still flush is nothing to complain of.
        os._exit(1)
    except UnicodeEncodeError as e:
        return f"{e.object!r:.200} {NO_UTF8}", 1
    except Exception as e:
        if isinstance(e, OSError) and e.errno is not None:
            return f"{e.filename}: {e.strerror}" if e.filename else str(e.strerror), 1
        if not launcher.label():
            raise
        traceback.print_exc()
        return f"{type(e).__name__}, see above", 1
    finally:
        locks.release_held()
    return None


def _end_stopped(stopped: signals.Stopped) -> None:
    signals.uninstall()
    if launcher.is_first():
        say(str(stopped))
    elif stopped.by_all_workers:
        # Rank 0 is to say it before the launcher ends the job because of this worker.
        time.sleep(REPEATED_AFTER)
    sys.stdout.flush()
    # Without the usual clean-up, which would wait for other processes.
    os._exit(stopped.exit_code)


def quieten_tensorflow() -> None:
    """Logs this project's own lines with the time, of TensorFlow's only warnings and errors.

    Of several workers all but the first log nothing else either.
    """
    LOG.setLevel(logging.INFO)
    LOG.propagate = False
    label = launcher.label()
    if label and not launcher.is_first():
        LOG.setLevel(logging.WARNING)
        label = f" [{label}]"
    else:
        label = ""
    LOG.handlers = [make_handler(label)]
