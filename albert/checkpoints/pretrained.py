"""Models from elsewhere: folders of `transformers`, and published checkpoints."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from albert.checkpoints import transformers_names as names
from albert.checkpoints.checkpoint_files import load_checkpoint, resolve_checkpoint
from albert.checkpoints.model_folder import OWN_PARAMS
from albert.checkpoints.transformers_folder import (
    TOKENIZER,
    is_transformers_folder,
    tokenizer_settings,
)
from albert.core.errors import UserError
from albert.core.files import read_json

# Lengths and numbers of answers that `transformers` does not record. With the reference's defaults,
# windows of a question and a text have at most 384 tokens.
_OF_QUESTIONS = {
    "doc_stride": 128,
    "max_query_length": 64,
    "max_answer_length": 30,
    "n_best_size": 20,
    "mask_padding_in_loss": True,
}
_WINDOW = 384
_OPTIONS = ("A", "B", "C", "D")
# The files of sentence-transformers, and the poolings in them.
_MODULES, _LENGTH = "modules.json", "sentence_bert_config.json"
_POOLINGS = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}


def description_of(files: Mapping[str, str]) -> dict[str, Any]:
    """Describes a pretrained model as `assets.extra/model.json` describes a trained one.

    It has a task if the model has a head that answers. Raises a `UserError` for invalid files.
    """
    folder = files["init_checkpoint"]
    about = tokenizer_settings(folder)
    if not is_transformers_folder(folder):
        return about
    config = _object(files["albert_config_file"], "the configuration")
    parts = load_checkpoint(resolve_checkpoint(folder)).parts
    longest = config.get("max_position_embeddings", 512)
    head = _description_of_head(config, parts, longest)
    if not head:
        return {**about, "max_seq_length": longest, **_sentence_settings(folder, about)}
    ours = config.get("task_specific_params")
    own = ours.get(OWN_PARAMS) if isinstance(ours, dict) else None
    # `albert convert` has written what the training knew. With another head or other labels, the
    # model was trained further in transformers.
    if isinstance(own, dict) and all(own.get(n) == head.get(n) for n in ("task", "labels")):
        head |= own
    return {**about, **head}


def _description_of_head(
    config: Mapping[str, Any], parts: Sequence[str], longest: int
) -> dict[str, Any]:
    """Describes a model with a head that answers; an empty dict without one."""
    about: dict[str, Any] = {"max_seq_length": min(longest, _WINDOW)}
    if names.SQUAD_V1 in parts:
        return {**about, "task": "squad-1.1", **_OF_QUESTIONS}
    if names.SQUAD_V2 in parts:
        tops = {"start_n_top": 5, "end_n_top": 5, "no_answer_threshold": None}
        return {**about, "task": "squad-2.0", **_OF_QUESTIONS, **tops}
    if names.TOKENS in parts:
        return {**about, "task": "entities", "labels": _labels(config)}
    if names.CLASSIFIER in parts:
        kinds = config.get("architectures") or ["ForSequenceClassification"]
        if not str(kinds[0]).endswith(("ForSequenceClassification", "ForMultipleChoice")):
            raise UserError(
                f"config.json has the architectures {kinds}, which do not say what the classifier "
                "is for: ForSequenceClassification, ForTokenClassification or ForMultipleChoice"
            )
        if "MultipleChoice" in str(config.get("architectures")):
            lengths = {"max_qa_length": longest // 4}
            return {**about, "task": "race", "labels": list(_OPTIONS), **lengths}
        kind = config.get("problem_type")
        is_number = kind == "regression" or len(config.get("id2label", "two")) == 1
        labels = [None] if is_number else _labels(config)
        several = {"multi_label": True, "label_threshold": 0.5} if "multi" in str(kind) else {}
        return {**about, "task": "glue", "labels": labels, "limits": None, **several}
    return {}


def _labels(config: Mapping[str, Any]) -> list[str]:
    """Returns the labels of a configuration in the order of their ids; the default has two."""
    named = config.get("id2label", {"0": "LABEL_0", "1": "LABEL_1"})
    try:
        return [named[str(number)] for number in range(len(named))]
    except (KeyError, TypeError) as e:
        raise UserError("id2label of config.json does not name every id from 0 on") from e


def _sentence_settings(folder: str, tokenizer: Mapping[str, Any]) -> dict[str, Any]:
    """Returns pooling, normalization and length, as sentence-transformers has saved them."""
    about: dict[str, Any] = {}
    path = os.path.join(folder, _LENGTH)
    saved = _object(path, "the length") if os.path.exists(path) else {}
    if saved.get("do_lower_case") and not tokenizer.get("do_lower_case", True):
        raise UserError(f"{path} has do_lower_case true, but {TOKENIZER} in this folder has false")
    if length := saved.get("max_seq_length"):
        about["max_seq_length"] = length
    path = os.path.join(folder, _MODULES)
    if not os.path.exists(path):
        return about
    modules = read_json(path, "the modules of sentence-transformers")
    try:
        if not isinstance(modules, list):
            raise TypeError
        kinds = {module["type"].rpartition(".")[2]: str(module["path"]) for module in modules}
    except (KeyError, TypeError, AttributeError) as e:
        raise UserError(f"{path} is not a list of modules, each with type and path") from e
    modes: set[str] = set()
    if "Pooling" in kinds:
        path = os.path.join(folder, kinds["Pooling"], "config.json")
        pooling = _object(path, "the pooling")
        modes = {name for name in pooling if "pooling_mode" in name and pooling[name] is True}
        if len(modes) != 1:
            raise UserError(
                f"{path} has {len(modes)} pooling modes that are true; one is supported"
            )
        about["pooling"] = _POOLINGS.get(next(iter(modes)), "")
    if others := (kinds.keys() - {"Transformer", "Pooling", "Normalize"}) | (modes - {*_POOLINGS}):
        raise UserError(
            f"{path}: {', '.join(sorted(others))} of sentence-transformers is not supported; "
            "supported are the mean over the tokens or [CLS], and normalization"
        )
    return {**about, "normalize": "Normalize" in kinds}


def _object(path: str, what: str) -> dict[str, Any]:
    """Reads a JSON object; raises a `UserError` for other content."""
    content = read_json(path, what)
    if not isinstance(content, dict):
        raise UserError(f"{path}: {what} is not a JSON object")
    return content
