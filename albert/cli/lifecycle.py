"""Logging, error reporting and exit codes of a program, once its flags are parsed."""

from __future__ import annotations

import contextlib
import gc
import io
import logging
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from typing import Any

from absl import app, flags

from albert.core import locks, signals
from albert.core.errors import NO_UTF8, UserError
from albert.core.log import LOG, make_handler
from albert.distributed import launcher


def run(command: Any, request: Any) -> None:
    """Runs a command, see `albert.cli.main`, with its parsed command line.

    An error of the user ends the program with one line, and with exit code 2 (flags) or 1 (the
    rest). Any other exception is a bug and shows a traceback.
    """
    # Signals must also work during the import of TensorFlow, which takes seconds.
    signals.install(getattr(command, "RESUMES", False))
    if not flags.FLAGS.is_parsed():
        # `app.run` requires parsed flags, even for a command that uses argparse.
        flags.FLAGS(sys.argv[:1])
    app.run(lambda argv: _run_main(command, request), flags_parser=lambda argv: argv)


def _run_main(command: Any, request: Any) -> None:
    if getattr(command, "NEEDS_TENSORFLOW", True):
        # Its import writes a temporary file.
        try:
            tempfile.gettempdir()
        except FileNotFoundError as e:
            launcher.fail(
                f"{e.strerror}: free some disk space, or set TMPDIR to a folder that has space", 1
            )
        # The objects of this import live until the end. Collecting garbage takes a sixth of its
        # time.
        gc.disable()
        import tensorflow.compat.v1  # noqa: F401

        gc.freeze()
        gc.enable()
    quieten_tensorflow()
    signals.raise_stopped()
    try:
        failure = _failure_of(command.main, request)
    except signals.Stopped as e:
        _end_stopped(e)
    signals.uninstall()
    # Only now, because everything that `main` used has been cleaned up.
    if failure:
        launcher.fail(*failure)


def _failure_of(main: Callable[[Any], None], request: Any) -> tuple[str, int] | None:
    """Runs `main`; if it fails, returns the message and the exit code."""
    try:
        main(request)
        # If the output cannot be written, the program has failed.
        sys.stdout.flush()
    except UserError as e:
        return str(e), e.exit_code
    except BrokenPipeError:
        # The reader has gone. A normal exit would flush the output and report another error.
        os._exit(1)
    except UnicodeEncodeError as e:
        return f"{e.object!r:.200} {NO_UTF8}", 1
    except Exception as e:
        if isinstance(e, OSError) and e.errno is not None:
            # Write the output, if possible: a failure at Python's exit would change the exit code.
            with contextlib.suppress(OSError):
                sys.stdout.flush()
            sys.stdout = io.StringIO()
            return f"{e.filename}: {e.strerror}" if e.filename else str(e.strerror), 1
        if not launcher.label():
            raise
        traceback.print_exc()
        return f"{type(e).__name__}; see the traceback above", 1
    finally:
        locks.release_held()
    return None


def _end_stopped(stopped: signals.Stopped) -> None:
    signals.uninstall()
    if launcher.is_first():
        launcher.say(str(stopped))
    elif stopped.by_all_workers:
        # Rank 0 must print the message before the launcher ends the job because of this worker.
        time.sleep(launcher.REPEATED_AFTER)
    sys.stdout.flush()
    # The usual clean-up would wait for other processes.
    os._exit(stopped.exit_code)


def quieten_tensorflow() -> None:
    """Logs this project's lines with the time; only warnings of TensorFlow and of ranks above 0."""
    is_first = launcher.is_first()
    LOG.setLevel(logging.INFO if is_first else logging.WARNING)
    LOG.propagate = False
    LOG.handlers = [make_handler("" if is_first else f" [{launcher.label()}]")]
