"""What the commands of this folder share: their errors, exit codes and types of arguments."""

import argparse
import contextlib
import errno
import logging
import os
import sys
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path


class FetchError(Exception):
    """What the user or the environment has to put right; the text is one line that says how."""


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns the system's refusal to write into a FetchError that says what to do.

    An OSError without a number comes from a decompressor, not from the system: it passes.
    """
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        advice = "check this path"
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            advice = "make room, then run the same command again"
        elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            advice = "choose a folder that you may write to"
        where = error.filename or path  # the system's name may be that of a folder above
        raise FetchError(f"cannot write {where}: {error.strerror}; {advice}") from error


def sync_folder(folder: Path) -> None:
    """Puts a rename in the folder on the disk; some file systems cannot, and do without."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def run_command(main: Callable[[], None]) -> int:
    """Runs a command and returns its exit code; what the user has to know is one line."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    program = Path(sys.argv[0]).name
    try:
        main()
    except FetchError as error:
        print(f"{program}: error: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{program}: interrupted; the same command goes on from here", file=sys.stderr)
        return 130
    return 0


def web_address(text: str) -> str:
    """An argparse type: an http or https address."""
    parts = urllib.parse.urlsplit(text)  # a ValueError is what argparse expects
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise argparse.ArgumentTypeError(f"{text!r} is no http or https address")
    return text


def seconds(text: str) -> float:
    """An argparse type: a finite number of seconds, not negative."""
    value = float(text)
    if not 0 <= value < float("inf"):
        raise ValueError(text)
    return value
