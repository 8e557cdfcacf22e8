"""Running a program: its flags, its log, and how it ends."""

from __future__ import annotations

import logging
import os
import sys
import sysconfig
from collections.abc import Callable

import tensorflow.compat.v1 as tf
from absl import app, flags

from runtime.errors import UserError

_LIBRARIES = sysconfig.get_paths()["purelib"]


def run(main: Callable[[list[str]], None]) -> None:
    """Runs `main` with the parsed flags.

    Errors of the input, the flags or the environment end the program with one line on standard
    error and exit code 2 (flags) or 1 (the rest). Anything else is a bug and shows its traceback.
    """
    app.run(lambda argv: _guard(main, argv), flags_parser=_parse)


def _parse(argv: list[str]) -> list[str]:
    """Parses the flags; `--help` and its kin are dealt with by absl."""
    try:
        rest = flags.FLAGS(argv)
    except flags.Error as e:
        _end(f"{e}; see --help", 2)
    if len(rest) > 1:
        _end(f"{rest[1]!r} is not a flag; flags are --name=value, see --help", 2)
    return rest


def _guard(main: Callable[[list[str]], None], argv: list[str]) -> None:
    quieten_tensorflow()
    try:
        main(argv)
    except UserError as e:
        _end(str(e), e.exit_code)
    except OSError as e:
        if e.filename is None and e.errno is None:
            raise
        where = f"{e.filename}: " if e.filename else ""
        _end(f"{where}{e.strerror}", 1)
    except KeyboardInterrupt:
        _end("interrupted; the same command resumes from the last checkpoint", 130)


def _end(message: str, code: int) -> None:
    line = " ".join(message.split())
    print(f"{os.path.basename(sys.argv[0])}: error: {line}", file=sys.stderr)
    sys.exit(code)


def quieten_tensorflow() -> None:
    """Logs this project's own lines with the time, of TensorFlow's only warnings and errors."""
    logger = tf.get_logger()
    logger.setLevel(logging.INFO)
    logger.propagate = False
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%H:%M:%S"))
    handler.addFilter(_is_of_interest)
    logger.handlers = [handler]


def _is_of_interest(record: logging.LogRecord) -> bool:
    of_library = record.pathname.startswith(_LIBRARIES)
    if record.levelno >= logging.WARNING:
        return not (of_library and "deprecated" in record.getMessage())
    return not of_library
