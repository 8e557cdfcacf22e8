"""Describes a model of `transformers`, with its head or what sentence-transformers has saved."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from albert.checkpoints import transformers_names as names
from albert.checkpoints.folder_contract import (
    CONFIG,
    LENGTH,
    MODULES,
    OWN,
    POOLING,
    PROMPTS,
    TOKENIZER,
    checked,
    read_checked,
)
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
_MODES = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}
# The encoder has two names. Dropout does nothing after training.
_MODULES = {"Transformer", "BERT", "Pooling", "Normalize", "Dropout"}


def description_of(files: Mapping[str, str]) -> dict[str, Any]:
    """Describes a pretrained model as `assets.extra/model.json` describes a trained one.

    It has a task if the model has a head that answers. Raises a `UserError` for invalid files.
    """
    folder = files["init_checkpoint"]
    about = tokenizer_settings(folder)
    if not is_transformers_folder(folder):
        return about
    file = files["albert_config_file"]
    config = read_checked(file, CONFIG, "the configuration")
    reader = open_folder(folder)
    path, positions = os.path.join(folder, TOKENIZER), config.get("max_position_embeddings", 512)
    saved = read_checked(path, TOKENIZER, "the tokenizer's configuration")
    longest = int(min(positions, saved.get("model_max_length", positions)))
    head = _description_of_head(config, reader, longest)
    if not head:
        has_pooler = {"has_pooler": names.POOLER in reader.parts}
        return {
            **about,
            "max_seq_length": longest,
            **has_pooler,
            **_sentence_settings(folder, longest, about),
        }
    ours = config.get("task_specific_params")
    own = ours.get(OWN_PARAMS) if isinstance(ours, dict) else None
    # `albert convert` has written what the training knew. With another head or other labels, the
    # model was trained further in transformers.
    if isinstance(own, dict) and all(own.get(n) == head.get(n) for n in ("task", "labels")):
        head |= checked(own, OWN, f"{file}: {OWN_PARAMS}")
    return {**about, **head}


def _description_of_head(
    config: Mapping[str, Any], reader: TransformersFolder, longest: int
) -> dict[str, Any]:
    """Describes a model with a head that answers; an empty dict without one."""
    parts, shapes = reader.parts, reader.get_variable_to_shape_map()
    about: dict[str, Any] = {"max_seq_length": min(longest, _WINDOW)}
    if names.SQUAD_V1 in parts:
        theirs, name = config.get("task_specific_params", {}), "handle_impossible_answer"
        theirs = theirs.get("question-answering")
        abstains = isinstance(theirs, dict) and theirs.get(name) is True
        return {**about, "task": "squad-1.1", **_OF_QUESTIONS, name: abstains}
    if names.SQUAD_V2 in parts:
        tops = {"start_n_top": 5, "end_n_top": 5, "no_answer_threshold": None}
        return {**about, "task": "squad-2.0", **_OF_QUESTIONS, **tops}
    if names.TOKENS in parts:
        labels = _labels(config, *shapes["cls/ner/output_bias"])
        return {**about, "task": "entities", "labels": labels}
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
        several: dict[str, Any] = {}
        if "multi" in str(kind):
            several = {"multi_label": True, "label_threshold": 0.5}
        labels = _labels(config, *shapes["output_bias"])
        is_number = kind == "regression" or (len(labels) == 1 and not several)
        about["labels"] = [None] if is_number else labels
        # As a model for own data.
        several |= {"task_name": "tsv", "tsv_regression": is_number}
        return {**about, "task": "glue", "limits": None, **several}
    return {}


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
