"""The options, argument types and exit codes that the download commands share."""

import argparse
import logging
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from albert.core.arguments import Parser
from albert.core.errors import UserError

_STOPPED = """
A run that was stopped goes on where it was when the same command is given again.
"""


def run_command(main: Callable[[], None]) -> int:
    """Runs a command and returns its exit code; what the user has to know is one line."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    program = Path(sys.argv[0]).name
    try:
        main()
    except UserError as error:
        print(f"{program}: error: {printable(str(error))}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print(f"{program}: interrupted; the same command goes on from here", file=sys.stderr)
        return 130
    return 0


def printable(text: str) -> str:
    """Returns the text as one line, with question marks for what would act on a terminal.

    What a server says, and names in an archive, are part of messages.
    """
    return "".join(c if c.isprintable() else "?" for c in " ".join(text.split()))


def new_parser(program: str | None, description: str, example: str) -> Parser:
    """Returns a parser; in the example %(prog)s stands for the program, which may have a name."""
    return Parser(program, description, epilog=epilog(example))


def epilog(example: str) -> str:
    """Returns the end of a help."""
    return example + _STOPPED


def add_option(parser: argparse.ArgumentParser, name: str, **more: Any) -> None:
    """Adds an option that several commands have: `data_dir`, `base_url` or `sha256`."""
    options: dict[str, tuple[Callable[[str], object], str, str]] = {
        "data_dir": (Path, "DIR", "where to; made if need be"),
        "base_url": (web_address, "URL", "folder on a mirror that has all files"),
        "sha256": (_sha256, "HEX", "hash of the archive; another one is an error"),
    }
    kind, metavar, text = options[name]
    parser.add_argument(f"--{name}", type=kind, metavar=metavar, help=text, **more)


def web_address(text: str) -> str:
    """Returns an http or https address; an argparse type."""
    # First: a message about another fault of the address would show the password.
    if re.match(r"([^/?#]*//)?[^/?#]*@", text):
        raise argparse.ArgumentTypeError("an address with a user name or password; leave them out")
    if not re.match(r"https?://[^/?#\s]+[^\s]*$", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no http or https address")
    return text


def _sha256(text: str) -> str:
    if not re.fullmatch(r"[0-9a-fA-F]{64}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no SHA-256, which has 64 hexadecimal digits")
    return text.lower()
