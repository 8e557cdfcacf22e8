"""Command lines of programs that take a model and not a run's flags."""

from __future__ import annotations

import argparse
import os

from runtime.errors import FlagError
from runtime.version import VERSION


class Parser(argparse.ArgumentParser):
    """Parses a command line, and reports what is wrong with it as all programs do."""

    def __init__(self, program: str, description: str):
        """Takes what the program is called, and its help."""
        super().__init__(
            prog=os.path.basename(program),
            description=description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        self.add_argument("model", metavar="MODEL", help="folder of the model")
        self.add_argument("--version", action="version", version=f"%(prog)s {VERSION}")

    def error(self, message: str) -> None:
        """Raises a `FlagError`."""
        raise FlagError(f"{message}; see --help")
