"""Conversion of TensorFlow checkpoints from and to folders of `transformers`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors.numpy
import tensorflow.compat.v1 as tf

from albert.checkpoints import transformers_names as names
from albert.checkpoints.checkpoint_files import (
    check_finite,
    load_checkpoint,
    resolve_checkpoint,
    write_checkpoint,
)
from albert.checkpoints.configurations import config_to_theirs
from albert.checkpoints.folder_contract import CONFIG, TOKENIZER
from albert.checkpoints.folder_tokenizer import tokenizer_settings
from albert.checkpoints.foreign_models import OWN_PARAMS
from albert.checkpoints.initialization import optimizer_variables
from albert.checkpoints.model_folder import (
    ASSETS,
    TOKENIZERS,
    Assets,
    ModelFolder,
    check_model,
    refuse_quantized,
    used_model,
    write_assets,
)
from albert.checkpoints.transformers_folder import STEP, WEIGHTS, open_folder
from albert.convert.settings import ConvertSettings
from albert.core.errors import FlagError, UserError
from albert.core.files import temporary_folder, write_json
from albert.core.text import listed
from albert.model.config import AlbertConfig, BertConfig, EncoderConfig, read_config
from albert.settings.fields import argument
from albert.tasks import completed
from albert.tokenization import FullTokenizer
from albert.tokenizers.text_rules import Normalization, TextRules
from albert.tokenizers.tokenizer_json import native_content

CONFIGS = {AlbertConfig: "albert_config.json", BertConfig: "bert_config.json"}
_SENTENCEPIECE, _WORDPIECE = "spiece.model", "vocab.txt"
# For each flag of a tokenizer, the file and the class in `transformers`.
_TOKENIZERS = {
    "spm_model_file": (_SENTENCEPIECE, "AlbertTokenizer"),
    "vocab_file": (_WORDPIECE, "BertTokenizer"),
}
_CLASSES = {
    names.SQUAD_V1: "ForQuestionAnswering",
    names.CLASSIFIER: "ForSequenceClassification",
    names.TOKENS: "ForTokenClassification",
    names.MASKED_TOKENS: "ForMaskedLM",
    names.NEXT_SENTENCE: "ForNextSentencePrediction",
}


class Source(NamedTuple):
    """A checkpoint by its prefix, with its model, and its weights by their names in `transformers`.

    Attributes:
      family: the model's type in `transformers`.
      parts: the model's parts in the checkpoint.
      step: None if the checkpoint has none.
    """

    checkpoint: str
    model: ModelFolder
    config: EncoderConfig
    family: str
    values: dict[str, np.ndarray]
    parts: list[str]
    step: int | None


def read_source(path: str, config_file: str | None) -> Source:
    """Reads a checkpoint by its prefix, its folder, or the folder of a run, which has a best one.

    The configuration is next to the checkpoint if `config_file` is None. Raises a `FlagError` if it
    is missing, and a `UserError` for a missing checkpoint, a damaged file, or weights that do not
    fit or are not finite.
    """
    checkpoint = resolve_checkpoint(path)
    model = ModelFolder.from_checkpoint(checkpoint)
    refuse_quantized(model.path)
    config = read_config(config_file) if config_file else _config_of(model)
    family, sizes = "bert" if isinstance(config, BertConfig) else "albert", config.to_dict()
    reader = load_checkpoint(checkpoint)
    shapes, dtypes = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
    step = int(reader.get_tensor(STEP)) if shapes.pop(STEP, None) is not None else None
    shapes = {name: shapes[name] for name in shapes.keys() - optimizer_variables(shapes)}
    pairs = names.pairs_of(family, sizes)
    parts = names.parts_in(pairs, shapes, checkpoint, theirs=False)
    if others := [name for name in shapes if dtypes[name] != tf.float32]:
        raise UserError(f"{checkpoint} has {listed(sorted(others))}, not of type float32")
    needed = [pair for part in parts for pair in pairs[part]]
    check_finite(checkpoint, reader, [pair.ours for pair in needed])
    values = {}
    for pair in needed:
        value = reader.get_tensor(pair.ours)
        values[pair.theirs] = np.ascontiguousarray(value.T) if pair.is_transposed else value
    if family == "albert" and sizes["embedding_size"] == sizes["hidden_size"]:
        for pair in names.mapping_in(sizes):
            size = pair.shape[0]
            identity = np.eye(size) if pair.is_transposed else np.zeros(size)
            values[pair.theirs] = identity.astype(np.float32)
    pooler = [pair.theirs for pair in pairs[names.POOLER] if names.POOLER in parts]
    if names.WITHOUT_POOLER & {*parts} and not any(values[name].any() for name in pooler):
        # A pooler of zeros means that the model had none in `transformers`; see
        # `TransformersFolder`.
        values = {name: value for name, value in values.items() if name not in pooler}
    return Source(checkpoint, model, config, family, values, parts, step)


def _config_of(model: ModelFolder) -> EncoderConfig:
    # In a run with --deterministic_run, only this file has the dropout of the model.
    if os.path.exists(kept := model.files["albert_config_file"]):
        return read_config(kept)
    beside = [os.path.join(model.path, name) for name in CONFIGS.values()]
    configs = [path for path in beside if os.path.exists(path)]
    if len(configs) != 1:
        raise FlagError(
            f"--albert_config_file is required: {model.path} does not have exactly one of "
            f"{' and '.join(CONFIGS.values())}, and has no configuration in {ASSETS}"
        )
    return read_config(configs[0])


def to_transformers(path: str, target: str, settings: ConvertSettings) -> str:
    """Converts a checkpoint, see `read_source`, to a new folder of `transformers`.

    Returns the class that loads it; raises a `UserError` or `FlagError` for unusable files.
    """
    with temporary_folder(target) as folder:
        source, config = begin(path, folder, settings)
        values, metadata = source.values, {"format": "pt"}
        if source.step is not None:
            metadata[STEP] = str(source.step)
        if not set(source.parts) - {names.ENCODER, names.POOLER}:
            # `transformers` writes an encoder without a head under these names.
            values = {name.partition(".")[2]: value for name, value in values.items()}
        try:
            weights = os.path.join(folder, WEIGHTS)
            safetensors.numpy.save_file(values, weights, metadata)
        except safetensors.SafetensorError as e:
            raise UserError(f"{target} cannot be written: {e}") from e
        _sort_metadata(weights)
    return config["architectures"][0]


def _sort_metadata(path: str) -> None:
    """Sorts the header of weights, whose metadata safetensors writes in a random order."""
    with open(path, "r+b") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.dumps(json.loads(file.read(size)), separators=(",", ":"), sort_keys=True)
        file.seek(8)
        file.write(header.encode().ljust(size))


def begin(path: str, folder: str, settings: ConvertSettings) -> tuple[Source, dict[str, Any]]:
    """Returns a checkpoint and its `config.json`, which it writes with the tokenizer."""
    source = read_source(path, settings.albert_config_file)
    flag, file, normalization = _tokenizer(source, settings)
    used = used_model(source.config.forward_values(), {flag: file}, normalization)
    check_model(source.checkpoint, used, "the checkpoint")
    config = _config(source)
    write_json(os.path.join(folder, CONFIG), config)
    longest = source.config.max_position_embeddings
    _write_tokenizer(folder, flag, file, normalization, model_max_length=longest)
    return source, config


def _write_tokenizer(
    folder: str, flag: str, file: str, normalization: Normalization, **more: Any
) -> str:
    """Writes a tokenizer's file, whose path it returns, and its configuration with more values.

    Raises a `UserError` for rules that only a tokenizer.json can have.
    """
    name, kind = _TOKENIZERS[flag]
    path = os.path.join(folder, name)
    Path(path).write_bytes(native_content(file))
    config = normalization.recorded()
    if rules := TextRules.parse(config.pop("tokenizer_rules", "")):
        if rules != TextRules(rules.added):
            raise UserError(
                "the model's tokenizer has unusual clean_text, max_input_chars_per_word or "
                "replacements, which this conversion cannot write; save the model with "
                "transformers instead"
            )
        ids = rules.ids_in(FullTokenizer.of({flag: file}, {}).vocab, TOKENIZER)
        config["added_tokens_decoder"] = {
            str(ids[token.content]): {
                **{name: value for name, value in token._asdict().items() if name != "id"},
                "special": not token.normalized,
            }
            for token in rules.added
            if token.content in ids
        }
    write_json(os.path.join(folder, TOKENIZER), {"tokenizer_class": kind, **config, **more})
    return path


def _tokenizer(source: Source, settings: ConvertSettings) -> tuple[str, str, Normalization]:
    """Returns the flag and the file of the model's tokenizer, and how it changes text."""
    given = {flag: getattr(settings, flag) for flag in TOKENIZERS}
    files = given if any(given.values()) else source.model.files
    flag = next((flag for flag in TOKENIZERS if files.get(flag)), None)
    if flag is None:
        raise FlagError(
            f"--spm_model_file or --vocab_file is required: {source.checkpoint} has no tokenizer "
            f"in {ASSETS} next to it"
        )
    about = source.model.known or tokenizer_settings(source.model.path)
    return flag, files[flag], Normalization.of({**about, **settings.given_normalization()})


def _config(source: Source) -> dict[str, Any]:
    """Returns the content of `config.json`."""
    config = config_to_theirs(source.family, source.config.to_dict())
    if about := source.model.description:
        config["task_specific_params"] = {OWN_PARAMS: about}
    known, parts = source.model.known, {*source.parts}
    ending = next((_CLASSES[part] for part in _CLASSES if part in parts), "Model")
    if {names.MASKED_TOKENS, names.NEXT_SENTENCE} <= parts:
        ending = "ForPreTraining"
    if {names.CLASSIFIER, names.TOKENS} & parts:
        labels = known.get("labels")
        count = len(source.values["classifier.bias"])
        if count == 1 and labels and len(labels) > 1:
            ending = "ForMultipleChoice"
        else:
            config |= _labels(count, labels)
            if known.get("multi_label"):
                config["problem_type"] = "multi_label_classification"
    return {**config, "architectures": [source.family.capitalize() + ending], "dtype": "float32"}


def _labels(count: int, labels: list | None) -> dict:
    """Returns the entries of `config.json` that name a classifier's scores."""
    if count == 1 and not any(labels or ()):
        return {"problem_type": "regression", "id2label": {"0": "LABEL_0"}}
    if not labels or len(labels) != count:
        labels = [f"LABEL_{number}" for number in range(count)]
    by_id = {str(number): label for number, label in enumerate(labels)}
    return {"id2label": by_id, "label2id": {label: n for n, label in enumerate(labels)}}


def from_transformers(path: str, target: str) -> str:
    """Converts a folder of `transformers` to one with a checkpoint, whose prefix it returns.

    It also has configuration and tokenizer. Raises a `UserError` if a folder cannot be used.
    """
    source = open_folder(path)
    config, settings = read_config(os.path.join(path, CONFIG)), tokenizer_settings(path)
    with temporary_folder(target) as folder:
        write_checkpoint(os.path.join(folder, "model.ckpt"), source)
        Path(folder, CONFIGS[type(config)]).write_text(config.to_json_string(), encoding="utf-8")
        model = ModelFolder.from_checkpoint(path)
        files = model.files
        tokenizers = {
            flag: _write_tokenizer(folder, flag, files[flag], Normalization.of(settings))
            for flag in TOKENIZERS
            if flag in files
        }
        if tokenizers and "task" in (about := completed(model).description):
            write_assets(folder, Assets(about, {**files, **tokenizers}))
    if not tokenizers:
        tf.logging.warning(
            "%s has neither %s nor %s; copy the tokenizer's file from where the model was trained",
            *(path, _SENTENCEPIECE, _WORDPIECE),
        )
    flags = [argument(name, value) for name, value in settings.items()]
    if flags:
        tf.logging.info("The tokenizer of this model needs %s", " ".join(flags))
    return os.path.join(target, "model.ckpt")
