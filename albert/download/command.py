"""The options, argument types and exit codes that the download commands share."""

import argparse
import logging
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from albert.core import installation
from albert.core.arguments import Parser
from albert.core.errors import UserError
from albert.core.log import make_handler
from albert.core.text import one_line

STOPPED = """
To resume a download that was stopped, run the same command again.
"""


def run_command(main: Callable[[], None]) -> int:
    """Runs a command and returns its exit code; errors are reported in one line."""
    logging.basicConfig(level=logging.INFO, handlers=[make_handler()])
    program = Path(sys.argv[0]).name
    try:
        installation.check()
        main()
    except UserError as error:
        print(f"{program}: error: {one_line(str(error))}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print(f"{program}: interrupted; the same command resumes", file=sys.stderr)
        return 130
    return 0


def new_parser(program: str | None, description: str, example: str) -> Parser:
    """Returns a parser; in the example, %(prog)s is replaced with the program's name."""
    return Parser(program, description or "", epilog=example + STOPPED)


def add_option(parser: argparse.ArgumentParser, name: str, **more: Any) -> None:
    """Adds an option that several commands share: `data_dir`, `base_url` or `sha256`."""
    options: dict[str, tuple[Callable[[str], object], str, str]] = {
        "data_dir": (Path, "DIR", "folder for the data; it is created if it does not exist"),
        "base_url": (web_address, "URL", "address of a folder on a mirror that has all files"),
        "sha256": (_sha256, "HEX", "expected hash of the archive; any other hash is an error"),
    }
    kind, metavar, text = options[name]
    parser.add_argument(f"--{name}", type=kind, metavar=metavar, help=text, **more)


def web_address(text: str) -> str:
    """Checks and returns an http or https address; an argparse type."""
    # This check comes first, because the next message would show the password.
    if re.match(r"([^/?#]*//)?[^/?#]*@", text):
        raise argparse.ArgumentTypeError("remove the user name or password from the address")
    if not re.match(r"https?://[^/?#\s]+[^\s]*$", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not an http or https address")
    return text


def _sha256(text: str) -> str:
    if not re.fullmatch(r"[0-9a-fA-F]{64}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a SHA-256 of 64 hexadecimal digits")
    return text.lower()
