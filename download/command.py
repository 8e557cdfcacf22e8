"""What the commands of this folder share: their errors, exit codes and types of arguments."""

import argparse
import contextlib
import errno
import logging
import os
import re
import sys
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path

from runtime.version import VERSION


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
    handler = logging.StreamHandler()
    handler.setFormatter(_Printable("%(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    program = Path(sys.argv[0]).name
    try:
        main()
    except FetchError as error:
        line = printable(" ".join(str(error).split()))
        print(f"{program}: error: {line}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{program}: interrupted; the same command goes on from here", file=sys.stderr)
        return 130
    return 0


def printable(text: str) -> str:
    """Returns the text with question marks for what would act on a terminal.

    What a server says, and names in an archive, are part of messages.
    """
    return "".join(c if c.isprintable() else "?" for c in text)


class _Printable(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return "\n".join(map(printable, super().format(record).split("\n")))


def check_address(url: str) -> None:
    """Checks an address before it is used, and shown in messages.

    Raises:
        ValueError: it is no http or https address, or has a user name or password.
    """
    # First: what Python says of a wrong address may have it in it.
    if re.match(r"([^/?#]*//)?[^/?#]*@", url):
        raise ValueError("an address with a user name or password; none is sent, leave it out")
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{url!r} is no http or https address")


def add_version(parser: argparse.ArgumentParser) -> None:
    """Adds `--version`, which prints the command's name and the version, and ends it."""
    parser.add_argument(
        "--version",
        action="version",
        version=f"%(prog)s {VERSION}",
        help="print the name and version of this command, and end",
    )


def web_address(text: str) -> str:
    """An argparse type: an http or https address."""
    try:
        check_address(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text


def seconds(text: str) -> float:
    """An argparse type: a finite number of seconds, not negative."""
    value = float(text)
    if not 0 <= value < float("inf"):
        raise ValueError(text)
    return value


def sha256(text: str) -> str:
    """An argparse type: a SHA-256 in hexadecimal."""
    if not re.fullmatch(r"[0-9a-fA-F]{64}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no SHA-256, which has 64 hexadecimal digits")
    return text.lower()


def gigabytes(text: str) -> int:
    """An argparse type: gigabytes, more than 0; gives bytes."""
    value = float(text)
    if not 0 < value < float("inf"):
        raise ValueError(text)
    return int(value * 10**9)
