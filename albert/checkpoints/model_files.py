"""The files of a model in its folder."""

from __future__ import annotations

import glob
import os
from pathlib import Path
from typing import Any

from albert.checkpoints.checkpoint_files import BEST, best_or_newest, resolve_checkpoint
from albert.checkpoints.model_folder import (
    ASSETS,
    DESCRIPTION,
    TOKENIZERS,
    files_of_model,
    read_description,
)
from albert.checkpoints.transformers_folder import (
    TOKENIZER_JSON,
    is_transformers_folder,
    tokenizer_settings,
)
from albert.core.errors import UserError
from albert.core.files import read_bytes
from albert.tokenizers.normalization import Normalization
from albert.tokenizers.tokenizer_json import is_unigram, parse_tokenizer

# The files in the folder of a pretrained model, by the setting that takes each.
_CONFIG = "albert_config_file"
_PUBLISHED = {
    _CONFIG: ("albert_config.json", "bert_config.json"),
    "spm_model_file": ("*.model",),
    "vocab_file": ("vocab.txt",),
}
_OF_TRANSFORMERS = {**_PUBLISHED, _CONFIG: ("config.json",)}
# The weights of a SavedModel: a checkpoint with the names of the model's variables.
_EXPORTED = os.path.join("variables", "variables")
# The name of a checkpoint that `albert convert` has written.
_CONVERTED = "model.ckpt"


def flags_of_model(folder: str) -> dict[str, Any]:
    """Returns a model's configuration, tokenizer, checkpoint and normalization, by flag.

    The folder is that of a run, an export, or a pretrained model. Raises a `UserError` if it has no
    model, or several.
    """
    trained = trained_model_in(folder)
    if trained is not None:
        files = {**files_of_model(trained), "init_checkpoint": weights_of(trained)}
        return {**files, **Normalization.of(read_description(trained) or {})._asdict()}
    files = pretrained_files(folder)
    if not files:
        raise UserError(
            f"{folder} has no pretrained model: a configuration such as albert_config.json or "
            "config.json, weights, and vocab.txt or a SentencePiece model"
        )
    return {**files, **tokenizer_settings(files["init_checkpoint"])}


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


def folder_of(checkpoint: str) -> str:
    """Returns the folder of the model whose weights are a checkpoint; see `weights_of`."""
    path = os.path.abspath(checkpoint)
    if os.path.isdir(path):
        return path
    folder = os.path.dirname(path)
    return os.path.dirname(folder) if path.endswith(os.sep + _EXPORTED) else folder


def is_trained_model(path: str) -> bool:
    """Returns whether a folder has a model with the files that inference needs."""
    return os.path.exists(os.path.join(path, ASSETS, DESCRIPTION))


def trained_model_in(path: str) -> str | None:
    """Returns the folder of the only trained model in or below a folder; None if none exists."""
    if is_trained_model(path):
        return path
    below = [os.path.join(glob.escape(path), *depth, "*") for depth in ((), ("saved_model",))]
    models = [p for pattern in below for p in sorted(glob.glob(pattern)) if is_trained_model(p)]
    if len(models) == 1:
        return models[0]
    if models:
        raise UserError(f"{path} has several models; pass one of them: {', '.join(models)}")
    return None


def weights_of(path: str) -> str:
    """Returns the checkpoint of a trained model: the exported, converted, best or newest one."""
    own = (os.path.join(path, name) for name in (_EXPORTED, _CONVERTED))
    checkpoint = next((p for p in own if os.path.exists(f"{p}.index")), None) or best_or_newest(
        path
    )
    if not checkpoint:
        raise UserError(f"{path} has no weights: neither {_EXPORTED}.index nor {BEST}.index")
    return resolve_checkpoint(checkpoint)
