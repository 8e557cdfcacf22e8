"""Command lines of commands that have arguments, not the flags of a run."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

from albert.core.errors import FlagError
from albert.core.version import VERSION
from albert.settings.flags import NO_UTF8, is_utf8


class Parser(argparse.ArgumentParser):
    """Parses a command line, and reports what is wrong with it as all programs do."""

    def __init__(self, program: str, description: str):
        """Takes what the program is called, and its help."""
        super().__init__(
            prog=os.path.basename(program),
            description=description.strip(),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        self.add_argument("--helpfull", action="help", help=argparse.SUPPRESS)
        self.add_argument("--version", action="version", version=f"%(prog)s {VERSION}")

    def parse_known_args(self, args: Sequence[str], namespace: argparse.Namespace | None = None):
        """Parses arguments; raises a `FlagError` for one that is not UTF-8."""
        for argument in args:
            if not is_utf8(argument):
                raise FlagError(f"{argument!r} {NO_UTF8}")
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> None:
        """Raises a `FlagError`."""
        raise FlagError(f"{message}; see --help")
