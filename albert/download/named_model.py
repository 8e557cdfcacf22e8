"""The folder of a model that is given by its folder or its name."""

from __future__ import annotations

import os
import re
from pathlib import Path

from albert.core.errors import UserError

WHAT_TO_PASS = (
    "pass a folder that --export_dir or --output_dir has written, one of transformers, or one with "
    "a checkpoint, its configuration and its tokenizer"
)
# An environment variable that may name another folder to keep published models in.
_CACHE = "ALBERT_CACHE"


def local_folder(model: str) -> str:
    """Returns the folder of a model; downloads one that has a name, unless it is on disk already.

    The name is that of a model of Google's, such as albert_base_v2, or of one on the Hugging Face
    hub, such as google/bert_uncased_L-2_H-128_A-2 or NAME@REVISION. Raises a `UserError` if there
    is no such model, or it cannot be downloaded.
    """
    if os.path.isdir(model):
        return model
    if os.path.exists(model):
        raise UserError(f"{model} is a file, not a folder; {WHAT_TO_PASS}")
    # Most models are on disk, and need not import what downloads them.
    if is_hub_name(model):
        from albert.download.hub import download_snapshot

        return download_snapshot(model)
    from albert.download.download_pretrained_model import archive_address, download_model
    from albert.download.published import MODELS

    if model not in MODELS:
        raise UserError(
            f"{model} does not exist, and is not the name of a published model; {WHAT_TO_PASS}"
        )
    cache = Path(os.environ.get(_CACHE) or "~/.cache/albert-tf").expanduser()
    cache.mkdir(parents=True, exist_ok=True)
    download_model(archive_address(None, model), cache / model)
    return str(cache / model)


def is_hub_name(model: str) -> bool:
    """Returns whether a model that is not on disk could be on the hub: OWNER/NAME[@REVISION]."""
    return bool(re.fullmatch(r"[\w.-]+/[\w.-]+(@[\w./-]+)?", model)) and model[0] != "."


def pinned_name(model: str, folder: str) -> str:
    """Returns the name of a model with the revision of its folder, see `local_folder`."""
    if os.path.exists(model) or not is_hub_name(model):
        return model
    return f"{model.partition('@')[0]}@{os.path.basename(folder)}"
