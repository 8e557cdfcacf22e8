"""Recognizes the model in a folder by its files.

The folder is that of a run or an export, one of `transformers`, or that of a published checkpoint.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from albert.checkpoints import transformers_names as names
from albert.checkpoints.checkpoint_files import load_checkpoint, resolve_checkpoint
from albert.checkpoints.folder_contract import CONFIG, OWN, TOKENIZER_JSON, checked, read_checked
from albert.checkpoints.folder_tokenizer import longest_text, tokenizer_settings
from albert.checkpoints.model_folder import (
    ASSETS,
    DESCRIPTION,
    OWN_PARAMS,
    TOKENIZERS,
    read_description,
    recorded_settings,
)
from albert.checkpoints.sentence_folder import sentence_settings
from albert.checkpoints.transformers_folder import (
    TransformersFolder,
    is_transformers_folder,
    other_files,
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
            about = read_description(self.folder) or {}
            return checked(about, OWN, os.path.join(self.folder, ASSETS, DESCRIPTION))
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
    models = [path] if _is_trained_model(path) else []
    for pattern in () if models else ("*", "saved_model/*"):
        below = (os.path.join(path, name) for name in sorted(glob.glob(pattern, root_dir=path)))
        models += filter(_is_trained_model, below)
    if len(models) > 1:
        raise UserError(f"{path} has several models; pass one of them: {', '.join(models)}")
    if models:
        exported = os.path.join(models[0], _EXPORTED)
        weights = exported if os.path.exists(f"{exported}.index") else models[0]
        return _trained_model(models[0], resolve_checkpoint(weights))
    if files := pretrained_files(path):
        return ModelFiles(path, files, is_trained=False)
    raise UserError(f"{path} {_why_none(path)}")


def model_of_checkpoint(checkpoint: str) -> ModelFiles:
    """Returns the model whose weights are a checkpoint; a bare checkpoint has no other files."""
    path = os.path.abspath(checkpoint)
    if os.path.isdir(path):
        return ModelFiles(path, pretrained_files(path), is_trained=False)
    folder = path.removesuffix(os.sep + _EXPORTED)
    return _trained_model(folder if folder != path else os.path.dirname(path), checkpoint)


def _trained_model(folder: str, checkpoint: str) -> ModelFiles:
    assets = {_CONFIG: CONFIG, **TOKENIZERS}
    paths = {flag: os.path.join(folder, ASSETS, name) for flag, name in assets.items()}
    files = {flag: p for flag, p in paths.items() if flag == _CONFIG or os.path.exists(p)}
    return ModelFiles(folder, {**files, "init_checkpoint": checkpoint}, is_trained=True)


def pretrained_files(folder: str) -> dict[str, str]:
    """Returns the files of a pretrained model, by flag; an empty dict if it has none."""
    files: dict[str, str] = {}
    if os.path.exists(os.path.join(folder, ASSETS)):
        return files
    is_theirs = is_transformers_folder(folder)
    for name, patterns in (_OF_TRANSFORMERS if is_theirs else _PUBLISHED).items():
        # The archives of published models have a folder.
        find = Path(folder).glob if is_theirs else Path(folder).rglob
        if paths := [str(path) for pattern in patterns for path in sorted(find(pattern))]:
            files[name] = paths[0]
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
    if any(glob.glob(pattern, root_dir=path) for pattern in exported):
        return f"{missing}: {again}; export the model again with --export_dir"
    if glob.glob("*.ckpt*.index", root_dir=path):
        return (
            f"{missing}: {again}; repeat the command that trained the model, which trains nothing "
            "and writes the file"
        )
    return f"has no model; {other_files(path) or WHAT_TO_PASS}"


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
    reader = load_checkpoint(resolve_checkpoint(folder))
    longest = longest_text(folder, config.get("max_position_embeddings", 512))
    head = _description_of_head(config, reader, longest)
    if not head:
        has_pooler = {"has_pooler": names.POOLER in reader.parts}
        return {
            **about,
            "max_seq_length": longest,
            **has_pooler,
            **sentence_settings(folder, longest, about),
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
