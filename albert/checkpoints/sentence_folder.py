"""Reads what sentence-transformers has saved: pooling, length, normalization and prompt."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from albert.checkpoints.folder_contract import (
    LENGTH,
    MODULES,
    POOLING,
    PROMPTS,
    TOKENIZER,
    read_checked,
)
from albert.core.errors import UserError
from albert.core.files import read_json

_MODES = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}
# The encoder has two names. Dropout does nothing after training.
_MODULES = {"Transformer", "BERT", "Pooling", "Normalize", "Dropout"}


def sentence_settings(folder: str, longest: int, tokenizer: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values of a model's description that sentence-transformers has saved.

    `longest` is the most tokens that the model takes, and `tokenizer` the settings of its
    tokenizer. Raises a `UserError` for what this project does not compute.
    """
    about: dict[str, Any] = {}
    path = os.path.join(folder, LENGTH)
    saved = read_checked(path, LENGTH, "the length")
    if saved.get("do_lower_case") and not tokenizer.get("do_lower_case", True):
        raise UserError(f"{path} has do_lower_case true, but {TOKENIZER} in this folder has false")
    if "max_seq_length" in saved:
        about["max_seq_length"] = min(saved["max_seq_length"], longest)
    path = os.path.join(folder, MODULES)
    if not os.path.exists(path):
        return about
    kinds = _modules(folder, path)
    if "Pooling" in kinds:
        about |= _pooling(os.path.join(folder, kinds["Pooling"], "config.json"))
    path = os.path.join(folder, PROMPTS)
    prompts = read_checked(path, PROMPTS, "the prompts")
    if name := prompts.get("default_prompt_name"):
        if name not in prompts.get("prompts", {}):
            raise UserError(f"{path} has the default_prompt_name {name!r}, but no such prompt")
        about["prompt"] = prompts["prompts"][name] or ""
    return {**about, "normalize": "Normalize" in kinds}


def _modules(folder: str, path: str) -> dict[str, str]:
    """Returns the folders of the modules by class; raises a `UserError` for unsupported ones."""
    modules = read_json(path, "the modules of sentence-transformers")
    try:
        kinds = {module["type"].rpartition(".")[2]: module["path"] for module in modules}
        root = os.path.realpath(folder)
        paths = {path: os.path.realpath(os.path.join(root, path)) for path in kinds.values()}
    except (KeyError, TypeError, AttributeError) as e:
        raise UserError(f"{path} is not a list of modules, each with type and path") from e
    if outside := [p for p, real in paths.items() if os.path.commonpath([root, real]) != root]:
        raise UserError(f"{path} names {outside[0]}, which is not in its folder")
    if others := sorted(kinds.keys() - _MODULES):
        raise UserError(
            f"{path}: {', '.join(others)} of sentence-transformers is not supported; supported "
            "are the mean over the tokens or [CLS], and normalization"
        )
    return kinds


def _pooling(path: str) -> dict[str, Any]:
    """Returns the pooling in a file of any version; raises a `UserError` for another one."""
    pooling = read_checked(path, POOLING, "the pooling")
    modes = pooling.get("pooling_mode")
    if modes is None:
        old = [name for name in pooling if "pooling_mode" in name and pooling[name]]
        modes = [_MODES.get(name, name) for name in old] or ["mean"]
    modes = [modes] if isinstance(modes, str) else modes
    if modes not in (["mean"], ["cls"]):
        raise UserError(
            f"{path}: the pooling {', '.join(map(str, modes))} of sentence-transformers is not "
            "supported; supported are the mean over the tokens or [CLS]"
        )
    return {"pooling": modes[0], "include_prompt": pooling.get("include_prompt", True)}
