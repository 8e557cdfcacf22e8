"""Describes a model of `transformers`, with its head or what sentence-transformers has saved."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from albert.checkpoints import folder_contract as contract
from albert.checkpoints import transformers_names as names
from albert.checkpoints.folder_tokenizer import tokenizer_settings
from albert.checkpoints.transformers_folder import (
    TransformersFolder,
    is_transformers_folder,
    open_folder,
)
from albert.core.errors import UserError
from albert.core.files import read_json

# Where `config.json` of a converted model keeps the description, in its `task_specific_params`.
OWN_PARAMS = "albert-tf"
_MODES = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}
# The encoder has two names. Dropout does nothing after training.
_MODULES = {"Transformer", "BERT", "Pooling", "Normalize", "Dropout"}


def description_of(files: Mapping[str, str]) -> dict[str, Any]:
    """Describes a pretrained model as `assets.extra/model.json` describes a trained one.

    A head that answers has its name in `head`, and in `trained` what `albert convert` has recorded;
    `albert.tasks.completed` adds the task and its values. Raises a `UserError` for invalid files.
    """
    folder = files["init_checkpoint"]
    about = tokenizer_settings(folder)
    if not is_transformers_folder(folder):
        return about
    file = files["albert_config_file"]
    config = contract.read_checked(file, contract.CONFIG, "the configuration")
    reader = open_folder(folder)
    path = os.path.join(folder, contract.TOKENIZER)
    positions = config.get("max_position_embeddings", 512)
    saved = contract.read_checked(path, contract.TOKENIZER, "the tokenizer's configuration")
    longest = int(min(positions, saved.get("model_max_length", positions)))
    about |= {"max_seq_length": longest}
    if head := _description_of_head(config, reader):
        own = config.get("task_specific_params", {}).get(OWN_PARAMS)
        # With other labels, a converted model was trained further in transformers.
        is_own = isinstance(own, dict) and own.get("labels") == head.get("labels")
        trained = contract.checked(own, contract.OWN, f"{file}: {OWN_PARAMS}") if is_own else {}
        return {**about, **head, "trained": trained}
    about["has_pooler"] = names.POOLER in reader.parts
    return about | _sentence_settings(folder, longest, about)


def _description_of_head(config: Mapping[str, Any], reader: TransformersFolder) -> dict[str, Any]:
    """Describes a head that answers, by its name in messages; an empty dict without one."""
    parts, shapes = reader.parts, reader.get_variable_to_shape_map()
    if names.SQUAD_V1 in parts:
        theirs, name = config.get("task_specific_params", {}), "handle_impossible_answer"
        theirs = theirs.get("question-answering")
        return {"head": names.SQUAD_V1, name: isinstance(theirs, dict) and theirs.get(name) is True}
    if names.TOKENS in parts:
        return {"head": names.TOKENS, "labels": _labels(config, *shapes["cls/ner/output_bias"])}
    if names.CLASSIFIER in parts:
        kinds = config.get("architectures") or ["ForSequenceClassification"]
        if not str(kinds[0]).endswith(("ForSequenceClassification", "ForMultipleChoice")):
            raise UserError(
                f"config.json has the architectures {kinds}, which do not say what the classifier "
                "is for: ForSequenceClassification, ForTokenClassification or ForMultipleChoice"
            )
        if "MultipleChoice" in str(kinds):
            # Their number is not recorded; in the usual data sets it is four.
            return {"head": names.CHOICE, "labels": ["A", "B", "C", "D"]}
        kind, labels = str(config.get("problem_type")), _labels(config, *shapes["output_bias"])
        is_number = kind == "regression" or (len(labels) == 1 and "multi" not in kind)
        several = {"multi_label": True, "label_threshold": 0.5} if "multi" in kind else {}
        return {"head": names.CLASSIFIER, "labels": [None] if is_number else labels, **several}
    return {"head": names.SQUAD_V2} if names.SQUAD_V2 in parts else {}


def _labels(config: Mapping[str, Any], rows: int) -> list[str]:
    """Returns the labels of the rows of a head, as `transformers` reads them: numbers, too."""
    named = config.get("id2label")
    try:
        count = config.get("num_labels", 2) if named is None else len(named)
        if count != rows:
            raise UserError(f"config.json has {count} labels, but the head has {rows} rows")
        labels = [f"LABEL_{n}" if named is None else named[str(n)] for n in range(rows)]
    except (KeyError, TypeError) as e:
        raise UserError("id2label of config.json does not name every id from 0 on") from e
    texts = [str(label) if isinstance(label, str | int | float) else "" for label in labels]
    for text in texts:
        if not text or texts.count(text) > 1:
            wrong = f"the label {text!r:.40} twice" if text else "a label that is no text"
            raise UserError(f"id2label of config.json has {wrong}")
    return texts


def _sentence_settings(folder: str, longest: int, tokenizer: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values of a model's description that sentence-transformers has saved.

    `longest` is the most tokens that the model takes, and `tokenizer` the settings of its
    tokenizer. Raises a `UserError` for what this project does not compute.
    """
    about: dict[str, Any] = {}
    path = os.path.join(folder, contract.LENGTH)
    saved = contract.read_checked(path, contract.LENGTH, "the length")
    if saved.get("do_lower_case") and not tokenizer.get("do_lower_case", True):
        raise UserError(
            f"{path} has do_lower_case true, but {contract.TOKENIZER} in this folder has false"
        )
    if "max_seq_length" in saved:
        about["max_seq_length"] = min(saved["max_seq_length"], longest)
    path = os.path.join(folder, contract.MODULES)
    if not os.path.exists(path):
        return about
    kinds = _modules(folder, path)
    if "Pooling" in kinds:
        about |= _pooling(os.path.join(folder, kinds["Pooling"], "config.json"))
    path = os.path.join(folder, contract.PROMPTS)
    prompts = contract.read_checked(path, contract.PROMPTS, "the prompts")
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
    pooling = contract.read_checked(path, contract.POOLING, "the pooling")
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
