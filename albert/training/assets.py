"""The folder `assets.extra/`, with the files that inference needs in addition to the weights.

The folder is part of a run, or of a SavedModel, where TensorFlow Serving ignores it. It holds the
model's configuration, its tokenizer, and `model.json` with the task, lengths and labels of the
training. `albert.inference` reads it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from albert.core.files import open_atomically, read_bytes, read_json
from albert.core.version import VERSION

FOLDER = "assets.extra"
DESCRIPTION = "model.json"
CONFIG = "config.json"
# The first one that exists is the tokenizer's.
SPM_MODEL, VOCABULARY = "spm.model", "vocab.txt"
NAMES = (DESCRIPTION, CONFIG, SPM_MODEL, VOCABULARY)


class Assets(NamedTuple):
    """A task's description of its model.

    Attributes:
      description: JSON values by name; "task" is one of them.
      files: the paths of the other files, by their names in `NAMES`.
    """

    description: Mapping[str, Any]
    files: Mapping[str, str]


def write_assets(folder: str, assets: Assets) -> list[str]:
    """Writes the files into a folder and returns their paths; unchanged files are not rewritten.

    Raises:
      UserError: a file cannot be read or written.
    """
    for name, source in assets.files.items():
        content = read_bytes(source)
        # A copy instead of a link, so that later changes of the original do not change the model.
        _write(os.path.join(folder, name), content)
    # Last, because `read_assets` takes this file as the sign that the assets exist.
    description = {"program_version": VERSION, **assets.description}
    _write(os.path.join(folder, DESCRIPTION), json.dumps(description, indent=2).encode() + b"\n")
    return [os.path.join(folder, name) for name in (*assets.files, DESCRIPTION)]


def read_assets(folder: str) -> Assets | None:
    """Reads the assets that `write_assets` wrote into a folder; returns None if there are none.

    Raises:
      UserError: the description is damaged.
    """
    path = os.path.join(folder, DESCRIPTION)
    if not os.path.exists(path):
        return None
    description = read_json(path, "the description of the model")
    files = {name: os.path.join(folder, name) for name in (CONFIG, SPM_MODEL, VOCABULARY)}
    return Assets(description, {n: path for n, path in files.items() if os.path.exists(path)})


def _write(path: str, content: bytes) -> None:
    if not os.path.exists(path) or read_bytes(path) != content:
        with open_atomically(path, "wb") as file:
            file.write(content)
