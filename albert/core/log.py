"""The log of a program: TensorFlow's logger, which needs no TensorFlow to be written to."""

from __future__ import annotations

import contextlib
import logging
import sys
import sysconfig
from collections.abc import Iterator

from albert.core.locations import PACKAGE

LOG = logging.getLogger("tensorflow")
_LIBRARIES = sysconfig.get_paths()["purelib"]


def make_handler(label: str = "") -> logging.Handler:
    """Returns what shows this project's own lines with the time, of TensorFlow's only warnings.

    Args:
      label: stands behind the level of each line.
    """
    handler = logging.StreamHandler(sys.stderr)
    line = f"%(asctime)s %(levelname)s{label} %(message)s"
    handler.setFormatter(logging.Formatter(line, "%H:%M:%S"))
    handler.addFilter(_is_of_interest)
    return handler


@contextlib.contextmanager
def shown_log(verbose: bool) -> Iterator[None]:
    """Shows the log for the length of the block; unless it is verbose, warnings alone."""
    before = LOG.level, LOG.propagate, LOG.handlers
    LOG.setLevel(logging.INFO if verbose else logging.WARNING)
    LOG.propagate, LOG.handlers = False, [make_handler()]
    try:
        yield
    finally:
        level, LOG.propagate, LOG.handlers = before
        LOG.setLevel(level)


def _is_of_interest(record: logging.LogRecord) -> bool:
    # Installed from a wheel, this package is among the libraries.
    ours = record.pathname.startswith(PACKAGE)
    of_library = record.pathname.startswith(_LIBRARIES) and not ours
    if record.levelno >= logging.WARNING:
        return not (of_library and "deprecated" in record.getMessage())
    return not of_library
