"""The log of a program, which is TensorFlow's logger but needs no TensorFlow; and progress bars."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

import tqdm

from albert.core.files import PACKAGE

LOG = logging.getLogger("tensorflow")
# Folders of installed packages: an environment may take some from another one.
_LIBRARIES = ("/site-packages/", "/dist-packages/")


def make_handler(label: str = "") -> logging.Handler:
    """Returns a handler for this project's lines, with the time, and for TensorFlow's warnings.

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
    of_library = not ours and any(folder in record.pathname for folder in _LIBRARIES)
    if record.levelno >= logging.WARNING:
        return not (of_library and "deprecated" in record.getMessage())
    return not of_library


T = TypeVar("T")


def progress_bar(total: int, what: str, unit: str) -> tqdm.tqdm:
    """Returns a bar to `update`; only a terminal shows it, so that logs stay free of it."""
    hidden = not sys.stderr.isatty()
    return tqdm.tqdm(total=total, desc=what, unit=f" {unit}", disable=hidden, leave=False)


def progress(items: Iterable[T], total: int, what: str, unit: str) -> Iterator[T]:
    """Yields the items and draws a bar."""
    with progress_bar(total, what, unit) as bar:
        for item in items:
            yield item
            bar.update()
