"""Recognizes the model in a folder by its files.

The folder is that of a run or an export, one of `transformers`, or that of a published checkpoint.
"""

from __future__ import annotations

import glob
import os
from pathlib import Path
from typing import Any, NamedTuple

from albert.checkpoints.checkpoint_files import resolve_checkpoint
from albert.checkpoints.model_folder import (
    ASSETS,
    DESCRIPTION,
    TOKENIZERS,
    files_of_model,
    read_description,
    recorded_settings,
)
from albert.checkpoints.pretrained import description_of
from albert.checkpoints.transformers_folder import (
    TOKENIZER_JSON,
    is_transformers_folder,
    tokenizer_settings,
)
from albert.core.errors import UserError
from albert.core.files import read_bytes
from albert.download.named_model import WHAT_TO_PASS
from albert.tokenizers.normalization import Normalization
from albert.tokenizers.tokenizer_json import is_unigram, parse_tokenizer

_CONFIG = "albert_config_file"
# The files in the folder of a pretrained model, by the flag that takes each.
_PUBLISHED = {
    _CONFIG: ("albert_config.json", "bert_config.json"),
    "spm_model_file": ("*.model",),
    "vocab_file": ("vocab.txt",),
}
_OF_TRANSFORMERS = {**_PUBLISHED, _CONFIG: ("config.json",)}
# The weights of a SavedModel: a checkpoint with the names of the model's variables.
_EXPORTED = os.path.join("variables", "variables")


class ModelFiles(NamedTuple):
    """The files of a model: configuration, tokenizer and checkpoint, by flag.

    `is_trained` is whether this project has trained the model, and so described it.
    """

    folder: str
    files: dict[str, str]
    is_trained: bool

    def description(self) -> dict[str, Any]:
        """Returns the values with which the model works; see `Assets` and `description_of`."""
        if self.is_trained:
            return read_description(self.folder) or {}
        return description_of(self.files)

    def known(self) -> dict[str, Any]:
        """Returns the description, and the settings of the training if they are recorded."""
        return {**(recorded_settings(self.folder) or {}), **self.description()}

    def flags(self) -> dict[str, Any]:
        """Returns the files, and how the tokenizer changes text, by flag."""
        if self.is_trained:
            return {**self.files, **Normalization.of(self.description())._asdict()}
        return {**self.files, **tokenizer_settings(self.files["init_checkpoint"])}


def find_model(path: str) -> ModelFiles:
    """Returns the only model in a folder or below; raises a `UserError` for none, or several."""
    below = [os.path.join(glob.escape(path), *depth, "*") for depth in ((), ("saved_model",))]
    models = [path] if _is_trained_model(path) else []
    models = models or [
        p for pattern in below for p in sorted(glob.glob(pattern)) if _is_trained_model(p)
    ]
    if len(models) > 1:
        raise UserError(f"{path} has several models; pass one of them: {', '.join(models)}")
    for folder in models:
        exported = os.path.join(folder, _EXPORTED)
        weights = exported if os.path.exists(f"{exported}.index") else folder
        checkpoint = {"init_checkpoint": resolve_checkpoint(weights)}
        return ModelFiles(folder, {**files_of_model(folder), **checkpoint}, is_trained=True)
    if files := pretrained_files(path):
        return ModelFiles(path, files, is_trained=False)
    raise UserError(f"{path} {_why_none(path)}")


def model_of_checkpoint(checkpoint: str) -> ModelFiles:
    """Returns the model whose weights are a checkpoint; a bare checkpoint has no other files."""
    folder, is_trained = os.path.abspath(checkpoint), not os.path.isdir(checkpoint)
    if is_trained:
        is_exported = folder.endswith(os.sep + _EXPORTED)
        folder = os.path.dirname(os.path.dirname(folder) if is_exported else folder)
    return ModelFiles(folder, pretrained_files(folder), is_trained)


def pretrained_files(folder: str) -> dict[str, str]:
    """Returns the files of a pretrained model, by flag; an empty dict if it has none."""
    files: dict[str, str] = {}
    if os.path.exists(os.path.join(folder, ASSETS)):
        return files
    is_theirs = is_transformers_folder(folder)
    for name, patterns in (_OF_TRANSFORMERS if is_theirs else _PUBLISHED).items():
        for pattern in patterns:
            # The archives of published models have a folder.
            find = Path(folder).glob if is_theirs else Path(folder).rglob
            if paths := sorted(find(pattern)):
                files.setdefault(name, str(paths[0]))
    if _CONFIG not in files:
        return {}
    path = os.path.join(folder, TOKENIZER_JSON)
    if is_theirs and not files.keys() & TOKENIZERS.keys() and os.path.exists(path):
        tokenizer = parse_tokenizer(read_bytes(path), path)
        files["spm_model_file" if tokenizer and is_unigram(tokenizer) else "vocab_file"] = path
    return {**files, "init_checkpoint": os.path.dirname(files[_CONFIG])}


def _is_trained_model(path: str) -> bool:
    return os.path.exists(os.path.join(path, ASSETS, DESCRIPTION))


def _why_none(path: str) -> str:
    missing = f"has no {ASSETS}/{DESCRIPTION}, which inference needs"
    again = "a version before 0.2.0 wrote it, or it was not copied completely"
    exported = ("saved_model.pb", "*/saved_model.pb", "saved_model/*/saved_model.pb")
    if any(glob.glob(os.path.join(glob.escape(path), pattern)) for pattern in exported):
        return f"{missing}: {again}; export the model again with --export_dir"
    if glob.glob(os.path.join(glob.escape(path), "*.ckpt*.index")):
        return (
            f"{missing}: {again}; repeat the command that trained the model, which trains nothing "
            "and writes the file"
        )
    return f"has no model; {WHAT_TO_PASS}"
