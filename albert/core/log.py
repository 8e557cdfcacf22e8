"""Logging with TensorFlow's logger, without importing TensorFlow; and progress bars."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

from albert.core.files import PACKAGE
from albert.core.text import printable

if TYPE_CHECKING:
    import tqdm

LOG = logging.getLogger("tensorflow")
# Folders of installed packages, also of another environment that this one uses.
_LIBRARIES = ("/site-packages/", "/dist-packages/")


def make_handler(label: str = "") -> logging.Handler:
    """Returns a handler for this project's lines, with the time, and TensorFlow's warnings."""
    handler = logging.StreamHandler(sys.stderr)
    line = f"%(asctime)s %(levelname)s{label} %(message)s"
    handler.setFormatter(_Formatter(line, "%H:%M:%S"))
    handler.addFilter(_is_of_interest)
    return handler


class _Formatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        # Names in the files of others must not control the terminal.
        return "\n".join(map(printable, super().format(record).split("\n")))


@contextlib.contextmanager
def shown_log(verbose: bool) -> Iterator[None]:
    """Shows the log during the block; only warnings and errors unless it is verbose."""
    before = LOG.level, LOG.propagate, LOG.handlers
    LOG.setLevel(logging.INFO if verbose else logging.WARNING)
    LOG.propagate, LOG.handlers = False, [make_handler()]
    try:
        yield
    finally:
        level, LOG.propagate, LOG.handlers = before
        LOG.setLevel(level)


def _is_of_interest(record: logging.LogRecord) -> bool:
    # A package that was installed from a wheel is in the libraries' folder.
    ours = record.pathname.startswith(PACKAGE)
    is_library = not ours and any(folder in record.pathname for folder in _LIBRARIES)
    if record.levelno >= logging.WARNING:
        return not (is_library and "deprecated" in record.getMessage())
    return not is_library


T = TypeVar("T")


def progress_bar(total: int, what: str, unit: str) -> tqdm.tqdm:
    """Returns a progress bar to `update`, which is shown only in a terminal, not in log files."""
    # Its import takes as long as the rest of a command's help.
    import tqdm

    hidden = not sys.stderr.isatty()
    return tqdm.tqdm(total=total, desc=what, unit=f" {unit}", disable=hidden, leave=False)


def progress(items: Iterable[T], total: int, what: str, unit: str) -> Iterator[T]:
    """Yields the items and shows a progress bar."""
    with progress_bar(total, what, unit) as bar:
        for item in items:
            yield item
            bar.update()
