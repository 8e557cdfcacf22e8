"""The paths of the package's own files in a clone, an editable installation and a wheel."""

from __future__ import annotations

import os
import sys

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def found(path: str) -> str:
    """Returns a path; of configs/ and bf16_config/ that of the package where there is none here."""
    if path.startswith(("configs/", "bf16_config/")) and not os.path.exists(path):
        return resource(path) if os.path.exists(resource(path)) else path
    return path


def resource(name: str) -> str:
    """Returns the path of a file or folder that comes with the package, such as "configs".

    A wheel has it in the package; in a clone it lies beside the package.
    """
    inside = os.path.join(PACKAGE, name)
    return inside if os.path.exists(inside) else os.path.join(os.path.dirname(PACKAGE), name)


def command(*words: str) -> list[str]:
    """Returns the command line that runs a command of `albert`, from any folder."""
    return [sys.executable, PACKAGE, *words]
