"""What a program does between its flags and its end: its log, and how it ends."""

from __future__ import annotations

import logging
import os
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

from albert.core import locks, signals
from albert.core.errors import NO_UTF8, UserError
from albert.core.log import LOG, make_handler
from albert.distributed import launcher
from albert.distributed.failure import REPEATED_AFTER, fail, say


def run_main(main: Callable[[Any], None], argv: Any) -> None:
    """Runs `main`, and ends the program as its errors and signals ask for, see `app.run`."""
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
