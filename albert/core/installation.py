"""Checks that this system and this installation can run the package; needs a fraction of 1 ms."""

from __future__ import annotations

import contextlib
import os
import re
import sys

from albert.core.errors import UserError

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_OWN = "albert_tf"


def check(package: str = _PACKAGE) -> None:
    """Raises a `UserError` on Windows, and if the package's files are another distribution's."""
    if sys.platform == "win32":
        raise UserError(
            "Windows is not supported: install and run this program in WSL, the Windows Subsystem "
            "for Linux"
        )
    if others := _others(package):
        raise UserError(
            f"{package} also has files of {' and '.join(others)}: run `pip uninstall "
            f"{' '.join(others)} albert-tf`, then install albert-tf again"
        )
    if not os.path.exists(os.path.join(package, "__init__.py")):
        raise UserError(
            f"{package} lacks files: run `pip uninstall albert-tf`, then install albert-tf again"
        )


def _others(package: str) -> list[str]:
    """Returns the other distributions, of those with a similar name, that have the same folder."""
    others, folder = [], os.path.dirname(package)
    for name in os.listdir(folder):
        # Importing `importlib.metadata` takes 20 ms.
        match = re.fullmatch(r"(albert\w*)-[^-]+\.dist-info", name, re.IGNORECASE)
        if not match or match[1] == _OWN:
            continue
        record = os.path.join(folder, name, "RECORD")
        with contextlib.suppress(OSError), open(record, encoding="utf-8") as file:
            if any(line.startswith("albert/") for line in file):
                others.append(match[1].replace("_", "-"))
    return sorted(others)
