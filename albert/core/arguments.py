"""Parsing of command lines for commands that use argparse instead of absl flags."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Container, Sequence
from typing import Any, NoReturn

from albert.core.errors import NO_UTF8, FlagError, see_help
from albert.core.text import is_utf8
from albert.core.version import VERSION

# The dashes of a word, the name of a flag, and the rest; each may be empty.
_FLAG = re.compile(r"(-{0,2})([^=]*)(.*)", re.DOTALL)


def with_underscores(words: Sequence[str], known: Container[str]) -> list[str]:
    """Returns a command line with underscores instead of hyphens in the names of known flags.

    If "noflag" is known, "--no-flag" is the same.
    """

    def renamed(word: str) -> str:
        dashes, name, value = _FLAG.fullmatch(word).groups()  # type: ignore[union-attr]
        underscored = name.replace("-", "_")
        names = underscored, re.sub("^no_", "no", underscored)
        known_name = next((one for one in names if dashes and one in known), None)
        return f"{dashes}{known_name}{value}" if known_name else word

    # Everything after "--" is an argument.
    end = words.index("--") if "--" in words else len(words)
    return [*map(renamed, words[:end]), *words[end:]]


class Parser(argparse.ArgumentParser):
    """Parses a command line, and reports errors in the same way as all programs."""

    def __init__(self, prog: str | None = None, description: str | None = None, **options: Any):
        """Takes the program's name, its help, and other options of `ArgumentParser`."""
        super().__init__(
            prog=prog and os.path.basename(prog),
            description=(description or "").strip(),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
            **options,
        )
        for name in ("--helpfull", "--helpshort"):
            self.add_argument(name, action="help", help=argparse.SUPPRESS)
        self.add_argument("--version", action="version", version=f"%(prog)s {VERSION}")

    def parse_known_args(self, args=None, namespace=None):
        """Parses arguments; raises a `FlagError` for one that is not UTF-8."""
        args = sys.argv[1:] if args is None else list(args)
        for argument in args:
            if not is_utf8(argument):
                raise FlagError(f"{argument!r} {NO_UTF8}")
        known = {name.lstrip("-") for name in self._option_string_actions}
        return super().parse_known_args(with_underscores(args, known), namespace)

    def error(self, message: str) -> NoReturn:
        """Raises a `FlagError`; for an unknown flag, it names similar ones."""
        wrong = re.search(r"unrecognized arguments: .*?(--[\w-]+)", message)
        known = [name for name in self._option_string_actions if name.startswith("--")]
        raise FlagError(message + see_help(wrong[1] if wrong else "", known))
