"""Finds the files of a model by its folder or its name, and gives them to a program's settings."""

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
from albert.core.errors import FlagError, UserError
from albert.core.files import content_of, read_bytes
from albert.settings.fields import AnySettings, argument
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
WHAT_TO_PASS = "pass a folder that --export_dir or --output_dir has written, or one of transformers"
# An environment variable that may name another folder to keep published models in.
_CACHE = "ALBERT_CACHE"


def local_folder(model: str) -> str:
    """Returns the folder of a model; downloads a published model by its name."""
    if os.path.isdir(model):
        return model
    if os.path.exists(model):
        raise UserError(f"{model} is a file, not a folder; {WHAT_TO_PASS}")
    # Most models are on disk, and need not import what downloads them.
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


def with_model(settings: AnySettings) -> AnySettings:
    """Returns settings in which --model has set the model's files and its tokenizer's flags.

    Without --model, a folder of `transformers` in --init_checkpoint sets the tokenizer's flags.
    Raises a `FlagError` if a given flag contradicts the model, and a `UserError` without a model.
    """
    values = vars(settings)
    source, start = "model", values.get("init_checkpoint")
    if values["model"]:
        found = flags_of_model(local_folder(values["model"]))
    elif start and is_transformers_folder(start):
        source, found = "init_checkpoint", tokenizer_settings(start)
    else:
        return settings
    found = {name: value for name, value in found.items() if name in values}
    of_model, given = argument(source, values[source]), settings.given - {source}
    if found.keys() & TOKENIZERS.keys():
        # A tokenizer of the other kind contradicts the model, too.
        found = {**dict.fromkeys(TOKENIZERS.keys() & given), **found}
    for name in sorted(found.keys() & given):
        if not _is_same(name, values[name], found[name]):
            its = "has another" if name not in Normalization._fields else f"has {found[name]}"
            raise FlagError(
                f"{argument(name, values[name])} contradicts {of_model}, which {its}; remove one"
            )
    return settings.replaced(given=settings.given | found.keys(), **found)


def _is_same(name: str, given: Any, found: Any) -> bool:
    """Returns whether a flag's value is that of the model; files are compared by content."""
    if name in Normalization._fields or None in (given, found):
        return given == found
    if name == "init_checkpoint":
        return os.path.realpath(resolve_checkpoint(given)) == os.path.realpath(
            resolve_checkpoint(found)
        )
    return content_of(given) == content_of(found)


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
    """Returns the checkpoint of a trained model: the exported, the best, or the newest one."""
    exported = os.path.join(path, _EXPORTED)
    checkpoint = exported if os.path.exists(f"{exported}.index") else best_or_newest(path)
    if not checkpoint:
        raise UserError(f"{path} has no weights: neither {_EXPORTED}.index nor {BEST}.index")
    return resolve_checkpoint(checkpoint)
