"""The folder of a model: its files, their description, the record of its training, its scores.

The folder is that of a model of `transformers`, that of a published checkpoint, or, with a
description, that of a run or of a SavedModel, where TensorFlow Serving ignores `assets.extra/`:

- `assets.extra/` has what inference needs in addition to the weights: the model's configuration,
  its tokenizer, and `model.json` with the task, lengths and labels of the training.
- `run.json` has the settings of the training, and `eval_results.json` the scores of checkpoints.

ALBERT shares weights between layers, so a checkpoint fits any number of layers and heads: with a
wrong configuration the model computes other answers and raises no error. So a model is compared
with the settings of its training, in `run.json` or in the `config.json` of a `transformers` folder.
"""

from __future__ import annotations

import functools
import glob
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from albert.checkpoints.checkpoint_files import resolve_checkpoint
from albert.checkpoints.folder_contract import CONFIG, OWN, TOKENIZER_JSON, checked
from albert.checkpoints.folder_tokenizer import tokenizer_settings
from albert.checkpoints.foreign_models import description_of
from albert.checkpoints.transformers_folder import is_transformers_folder, open_folder, other_files
from albert.core.errors import FlagError, UserError
from albert.core.files import content_of, open_atomically, read_bytes, read_object
from albert.core.record import read_record
from albert.core.version import VERSION
from albert.download.named_model import WHAT_TO_PASS, local_folder
from albert.tokenizers.text_rules import Normalization
from albert.tokenizers.tokenizer_json import is_unigram, parse_tokenizer

RECORD = "run.json"
SCORES = "eval_results.json"
# What to do if `RECORD` cannot be used.
WAYS_OUT = "give another --output_dir, or --overwrite_output_dir to remove that run and start over"
ASSETS = "assets.extra"
DESCRIPTION = "model.json"
# A model has one of them.
SPM_MODEL, VOCABULARY = "spm.model", "vocab.txt"
_CONFIG = "albert_config_file"
# The file of each flag; the first flag that is given determines the tokenizer.
TOKENIZERS = {"spm_model_file": SPM_MODEL, "vocab_file": VOCABULARY}
_NAMES = {_CONFIG: CONFIG, **TOKENIZERS}
ASSET_NAMES = (DESCRIPTION, *_NAMES.values())
# The weights of a SavedModel: a checkpoint with the names of the model's variables.
_EXPORTED = os.path.join("variables", "variables")
# An encoder in int8, of a model that `albert quantize` has written, in `ASSETS`.
QUANTIZED = "encoder.xml"


class Assets(NamedTuple):
    """A task's description of its model: JSON values by name, and paths by flag."""

    description: Mapping[str, Any]
    files: Mapping[str, str]


def write_assets(folder: str, assets: Assets) -> None:
    """Writes the changed `ASSETS`; raises a `UserError` for a bad file."""
    # Copies instead of links, so that later changes of the originals do not change the model.
    files = assets.files
    contents = {name: read_bytes(files[flag]) for flag, name in _NAMES.items() if flag in files}
    description = {"program_version": VERSION, **assets.description}
    # Last, because this file is the sign that the assets exist.
    contents[DESCRIPTION] = json.dumps(description, indent=2).encode() + b"\n"
    for name, content in contents.items():
        path = os.path.join(folder, ASSETS, name)
        if not os.path.exists(path) or read_bytes(path) != content:
            with open_atomically(path, "wb") as file:
                file.write(content)


def read_description(folder: str) -> dict[str, Any] | None:
    """Reads a model's description, or None; raises a `UserError` if it does not name the task."""
    path = os.path.join(folder, ASSETS, DESCRIPTION)
    if not os.path.lexists(path):
        return None
    about = read_object(path, "the description of the model")
    if not isinstance(about.get("task"), str):
        raise UserError(f"{path} does not name the model's task")
    return about


def quantized_encoder(folder: str) -> str:
    """Returns the path of a model's encoder in int8; "" if it has none."""
    path = os.path.join(folder, ASSETS, QUANTIZED)
    for file in (path, f"{os.path.splitext(path)[0]}.bin"):
        if os.path.lexists(file) and not os.path.isfile(file):
            raise UserError(f"{file} is not a regular file")
    return path if folder and os.path.exists(path) else ""


def refuse_quantized(folder: str) -> None:
    """Raises a `UserError` if a model has an encoder in int8, which would not be used."""
    if path := quantized_encoder(folder):
        raise UserError(
            f"{folder} has an encoder in int8, with which only --engine=openvino computes, to "
            f"predict: pass it, or remove {path} to use the weights in float32"
        )


def read_run_record(folder: str) -> dict[str, Any]:
    """Returns `begin_run`'s record in a folder, or {}; raises a `UserError` if it is damaged."""
    path = os.path.join(folder, RECORD)
    try:
        return read_record(path, "the record of the run", "settings") or {}
    except UserError as e:
        raise UserError(f"{path} is damaged; {WAYS_OUT}") from e


def recorded_settings(folder: str) -> dict | None:
    """Returns the settings of the record from `read_run_record`; None without a record."""
    return read_run_record(folder).get("settings")


def recorded_scores(output_dir: str) -> dict[str, Any]:
    """Reads a run's best scores, if any; raises a `UserError` if the record cannot be read."""
    path = os.path.join(output_dir, SCORES)
    return read_object(path, "the record of scores") if os.path.exists(path) else {}


def trained_threshold(threshold: float | None, output_dir: str, score: str) -> float | None:
    """Returns the given threshold, else the recorded one named `score`; None if unknown."""
    return recorded_scores(output_dir).get(score) if threshold is None else threshold


def check_model(path: str, model: Mapping[str, Any], flag: str) -> None:
    """Raises a `FlagError` if the record next to weights has another model; logs a missing record.

    `path` is that of the weights, or the folder of their run; for `model` see `used_model`.
    """
    own = ModelFolder.from_checkpoint(resolve_checkpoint(path))
    if not (recorded := own.recorded_model()):
        tf.logging.info(
            "%s %s has no %s: cannot check whether it was trained with this configuration and "
            "tokenizer",
            flag,
            path,
            RECORD,
        )
    elif differences := model_differences(recorded, model):
        remedy = "give the files and flags of its training"
        if not own.is_trained:
            remedy = f"give --{_CONFIG}={os.path.join(path, 'config.json')}, and its tokenizer"
        raise FlagError(f"{flag} {path} was trained with {', '.join(differences)}; {remedy}")


def used_model(
    config: Mapping[str, Any],
    tokenizer_files: Mapping[str, str | None],
    normalization: Normalization,
) -> dict[str, Any]:
    """Returns the properties of a model for `model_differences`.

    `config` has the values that the forward pass depends on. Of the tokenizer's files, by flag, the
    first one given is used.
    """
    flag, file = next((f, file) for f in TOKENIZERS if (file := tokenizer_files.get(f)))
    return {_CONFIG: config, flag: content_of(file), **normalization._asdict()}


def model_differences(recorded: Mapping[str, Any], model: Mapping[str, Any]) -> list[str]:
    """Returns differences between a model and its record in properties that both have, as text."""
    if "do_lower_case" in recorded:
        recorded = {**recorded, **Normalization.of(recorded)._asdict()}
    differences = [
        f"{'' if name == 'task' else '--'}{name} {recorded[name]}, not {model[name]}"
        for name in (model.keys() & recorded.keys()) - {_CONFIG, *TOKENIZERS}
        if model[name] != recorded[name]
    ]
    if recorded.get(_CONFIG) and _CONFIG in model:
        differences += _differences_of_configs(recorded[_CONFIG], model[_CONFIG])
    was, used = (
        {name: values[name] for name in TOKENIZERS if values.get(name)}
        for values in (recorded, model)
    )
    if was and used and was != used:
        differences.append(f"another --{next(iter(was))} than this --{next(iter(used))}")
    return sorted(differences)


def _differences_of_configs(was: Mapping[str, Any], used: Mapping[str, Any]) -> list[str]:
    kinds = ["an ALBERT" if "embedding_size" in config else "a BERT" for config in (was, used)]
    if kinds[0] != kinds[1]:
        return [f"{kinds[0]}, not {kinds[1]} as in --{_CONFIG}"]
    return [
        f"{key} {was[key]}, not the {used[key]} of --{_CONFIG}"
        for key in used.keys() & was.keys()
        if used[key] != was[key]
    ]


class ModelFolder:
    """A folder with a model, whose description and record are read once, when they are needed.

    Attributes:
      path: the folder.
      files: the paths of configuration, tokenizer and checkpoint, by flag.
      is_trained: whether this project has trained the model, and so described it.
    """

    def __init__(self, path: str, files: dict[str, str], is_trained: bool = False):
        self.path, self.files, self.is_trained = path, files, is_trained

    @classmethod
    def find(cls, path: str) -> ModelFolder:
        """Returns the only model in a folder or below it, or a published one by its name.

        Raises a `UserError` for none, or several.
        """
        path = local_folder(path)
        models = [path] if _is_described(path) else []
        for pattern in () if models else ("*", "saved_model/*"):
            below = (os.path.join(path, name) for name in sorted(glob.glob(pattern, root_dir=path)))
            models += filter(_is_described, below)
        if len(models) > 1:
            raise UserError(f"{path} has several models; pass one of them: {', '.join(models)}")
        if models:
            exported = os.path.join(models[0], _EXPORTED)
            weights = exported if os.path.exists(f"{exported}.index") else models[0]
            return cls._with_assets(models[0], resolve_checkpoint(weights))
        if files := pretrained_files(path):
            return cls(path, files)
        raise UserError(f"{path} {_why_none(path)}")

    @classmethod
    def from_checkpoint(cls, checkpoint: str) -> ModelFolder:
        """Returns the model whose weights are a checkpoint, which may have no other files."""
        path = os.path.abspath(checkpoint)
        if os.path.isdir(path):
            return cls(path, pretrained_files(path))
        folder = path.removesuffix(os.sep + _EXPORTED)
        return cls._with_assets(folder if folder != path else os.path.dirname(path), checkpoint)

    @classmethod
    def _with_assets(cls, folder: str, checkpoint: str) -> ModelFolder:
        paths = {flag: os.path.join(folder, ASSETS, name) for flag, name in _NAMES.items()}
        files = {flag: p for flag, p in paths.items() if flag == _CONFIG or os.path.exists(p)}
        return cls(folder, {**files, "init_checkpoint": checkpoint}, is_trained=True)

    @functools.cached_property
    def description(self) -> dict[str, Any]:
        """Returns the values with which the model works; see `Assets` and `description_of`."""
        if self.is_trained:
            about = read_description(self.path) or {}
            return checked(about, OWN, os.path.join(self.path, ASSETS, DESCRIPTION))
        return description_of(self.files)

    @functools.cached_property
    def record(self) -> dict[str, Any]:
        """Returns the record of the training; empty without one."""
        return read_run_record(self.path)

    def recorded_model(self) -> dict[str, Any]:
        """Returns the model's properties from the record of its training; empty without one."""
        if not self.is_trained:
            return {_CONFIG: open_folder(self.path).config, **tokenizer_settings(self.path)}
        settings, task = self.record.get("settings", {}), self.record.get("task")
        return {**settings, "task": task} if task else settings

    @property
    def known(self) -> dict[str, Any]:
        """Returns the description, and the settings of the training if they are recorded."""
        return {**self.record.get("settings", {}), **self.description}

    def flags(self) -> dict[str, Any]:
        """Returns the files, and how the tokenizer changes text, by flag."""
        if self.is_trained:
            return {**self.files, **Normalization.of(self.description)._asdict()}
        return {**self.files, **tokenizer_settings(self.files["init_checkpoint"])}


def _is_described(path: str) -> bool:
    return os.path.exists(os.path.join(path, ASSETS, DESCRIPTION))


def pretrained_files(folder: str) -> dict[str, str]:
    """Returns the files of a pretrained model, by flag; an empty dict if it has none."""
    files: dict[str, str] = {}
    is_theirs = is_transformers_folder(folder)
    if not is_theirs and os.path.exists(os.path.join(folder, ASSETS)):
        return files
    configs = ["config.json"] if is_theirs else ["albert_config.json", "bert_config.json"]
    # The archives of published models have a folder.
    find = Path(folder).glob if is_theirs else Path(folder).rglob
    patterns = {_CONFIG: configs, "spm_model_file": ["*.model"], "vocab_file": [VOCABULARY]}
    for flag, names in patterns.items():
        if paths := [str(path) for name in names for path in sorted(find(name))]:
            files[flag] = paths[0]
    if _CONFIG not in files:
        return {}
    path = os.path.join(folder, TOKENIZER_JSON)
    if is_theirs and not files.keys() & TOKENIZERS.keys() and os.path.exists(path):
        tokenizer = parse_tokenizer(read_bytes(path), path)
        files["spm_model_file" if tokenizer and is_unigram(tokenizer) else "vocab_file"] = path
    return {**files, "init_checkpoint": os.path.dirname(files[_CONFIG])}


def _why_none(path: str) -> str:
    exported = ("saved_model.pb", "*/saved_model.pb", "saved_model/*/saved_model.pb")
    if any(glob.glob(pattern, root_dir=path) for pattern in (*exported, "*.ckpt*.index")):
        return (
            f"has no {ASSETS}/{DESCRIPTION}, which inference needs: copy the whole folder, or "
            "repeat the command that wrote it, which trains nothing and writes the file"
        )
    return f"has no model; {other_files(path) or WHAT_TO_PASS}"
