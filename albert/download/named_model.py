"""The folder of a model that is given by its folder or its name."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

from albert.core.errors import UserError, optional
from albert.core.files import check_can_be_written, sha256_of
from albert.core.log import LOG
from albert.core.text import first_line

WHAT_TO_PASS = (
    "pass a folder that --export_dir or --output_dir has written, one of transformers, or one with "
    "a checkpoint, its configuration and its tokenizer"
)
# An environment variable that may name another folder to keep published models in.
_CACHE = "ALBERT_CACHE"
# Only the files that are needed. Weights of other formats can run code when they are read.
_WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "model-*-of-*.safetensors")
_FILES = (
    *_WEIGHTS,
    *("config.json", "tokenizer_config.json", "special_tokens_map.json", "tokenizer.json"),
    *("vocab.txt", "spiece.model", "added_tokens.json", "modules.json"),
    *("sentence_bert_config.json", "config_sentence_transformers.json", "*_Pooling/config.json"),
)
# The length of a SHA-256 hash, which is the name of a large file in the cache.
_DIGITS = 64


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
    if is_hub_name(model):
        return _download_snapshot(model)
    # Most models are on disk, and need not import what downloads them.
    from albert.download.pretrained import download_model
    from albert.download.published import MODELS

    if model not in MODELS:
        raise UserError(
            f"{model} does not exist, and is not the name of a published model; {WHAT_TO_PASS}"
        )
    folder = os.path.join(os.environ.get(_CACHE) or "~/.cache/albert-tf", model)
    folder = _writable(os.path.expanduser(folder), _CACHE)
    download_model(None, model, Path(folder).parent)
    return folder


def _writable(folder: str, variable: str) -> str:
    """Returns a folder of a cache; raises a `UserError` if it does not exist and cannot be made.

    `variable` is the environment variable that can name another cache.
    """
    if not os.path.isdir(folder):
        try:
            if folder.startswith("~"):
                raise UserError("there is no home folder")
            check_can_be_written(folder, "the folder")
        except UserError as e:
            raise UserError(f"{e}; set {variable} to a folder for models") from e
    return folder


def is_hub_name(model: str) -> bool:
    """Returns whether a model that is not on disk could be on the hub: OWNER/NAME[@REVISION]."""
    return bool(re.fullmatch(r"[\w.-]+/[\w.-]+(@[\w./-]+)?", model)) and model[0] != "."


def pinned_name(model: str, folder: str) -> str:
    """Returns the name of a model with the revision of its folder, see `local_folder`."""
    if os.path.exists(model) or not is_hub_name(model):
        return model
    return f"{model.partition('@')[0]}@{os.path.basename(folder)}"


def _download_snapshot(model: str) -> str:
    """Returns the folder of a model's files in the cache, whose name is that of the commit.

    `model` is OWNER/NAME or OWNER/NAME@REVISION. The variables of `huggingface_hub` work as usual,
    such as HF_HOME, HF_TOKEN, HF_ENDPOINT and HF_HUB_OFFLINE. Raises a `UserError` if the files
    cannot be had, are damaged, or have no weights in safetensors.
    """
    with optional("huggingface_hub", why=f"{model} is no folder; to read it from the hub, "):
        import huggingface_hub as hub
        from huggingface_hub import constants, errors, utils

    if not sys.stderr.isatty():
        utils.disable_progress_bars()
    name, _, revision = model.partition("@")
    blobs = Path(constants.HF_HUB_CACHE, "models--" + name.replace("/", "--"), "blobs")
    faults: dict[type[Exception], str] = {
        errors.HFValidationError: f"{model} does not exist, and is not a name that the hub allows; "
        f"{WHAT_TO_PASS}",
        errors.GatedRepoError: f"{model} is on the hub, but only for those who accept its "
        f"conditions: do so at {constants.ENDPOINT}/{name}, and set HF_TOKEN",
        errors.RevisionNotFoundError: f"{name} on the hub has no revision {revision}",
        errors.RepositoryNotFoundError: f"{model} is no folder, and no model on the hub; for a "
        "private one, set HF_TOKEN",
        errors.LocalEntryNotFoundError: f"{model} is no folder, is not in the cache "
        f"{constants.HF_HUB_CACHE}, and the hub cannot be reached; download it on a machine with a "
        f"network: `albert download {model}`",
    }
    request: dict[str, Any] = {"revision": revision or None, "allow_patterns": [*_FILES]}
    try:
        utils.validate_repo_id(name)
        _writable(str(blobs), "HF_HOME")
        known = {path.name for path in blobs.glob("*")}
        folder = Path(hub.snapshot_download(name, **request))
    except UserError:
        raise
    except (errors.HfHubHTTPError, OSError, ValueError) as e:
        fault = f"{model} cannot be downloaded from the hub ({first_line(e)}); run again to resume"
        raise UserError(next((faults[k] for k in faults if isinstance(e, k)), fault)) from e
    new = [p.resolve() for p in folder.rglob("*") if p.resolve().name not in known and p.is_file()]
    for path in new:
        if len(path.name) == _DIGITS and sha256_of(str(path)) != path.name:
            path.unlink()
            raise UserError(
                f"{model}: a file from the hub has another SHA-256 than announced; download again"
            )
    if not (folder / "config.json").exists():
        raise UserError(f"{model} on the hub has no config.json, so it is no model of transformers")
    if not any(os.path.exists(folder / name) for name in _WEIGHTS[:2]):
        raise UserError(
            f"{model} on the hub has no weights in safetensors, and other formats can run code; "
            "save it with transformers: save_pretrained(..., safe_serialization=True)"
        )
    if new:
        LOG.info("Downloaded %s to %s", model, folder)
    return str(folder)
