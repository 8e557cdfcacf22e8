"""Model folders: an export, an --output_dir, a pretrained model, or one of `transformers`."""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from albert.checkpoints.checkpoint_files import BEST, best_or_newest, resolve_checkpoint
from albert.checkpoints.model_folder import (
    ASSETS,
    CONFIG,
    DESCRIPTION,
    RECORD,
    SPM_MODEL,
    VOCABULARY,
    files_of_model,
    model_differences,
    read_description,
    recorded_model,
    used_model,
)
from albert.core.errors import UserError
from albert.inference.pretrained import description_of, model_files
from albert.modeling import BertConfig, EncoderConfig, read_config
from albert.settings.engines import TENSORFLOW
from albert.tokenization import FullTokenizer

# The weights of a SavedModel: a checkpoint with the names of the model's variables.
_EXPORTED = os.path.join("variables", "variables")
_WHAT_TO_PASS = (
    "pass a folder that --export_dir or --output_dir has written, or one of transformers"
)


class ModelFolder(NamedTuple):
    """A model on disk, with the settings that inference needs.

    Attributes:
      description: content of `assets.extra/model.json`, or of `description_of`.
      checkpoint: prefix of the weights.
      engine: what computes the encoder, a value of --engine.
    """

    path: str
    description: dict[str, Any]
    checkpoint: str
    config: EncoderConfig
    tokenizer: FullTokenizer
    engine: str = TENSORFLOW

    def __str__(self) -> str:
        sizes = f"{self.config.num_hidden_layers} layers of {self.config.hidden_size}"
        family = "BERT" if isinstance(self.config, BertConfig) else "ALBERT"
        task = self.description.get("task", "no task")
        return f"{family} of {sizes}, {task}, in {self.path!r}"

    def value(self, name: str) -> Any:
        """Returns a value of the description; raises a `UserError` if it does not exist."""
        if name not in self.description:
            raise UserError(
                f"{_asset(self.path, DESCRIPTION)} has no {name}; the file is damaged, or "
                "another version of this project wrote it"
            )
        return self.description[name]


def open_folder(path: str) -> ModelFolder:
    """Opens a model in a folder, or the only one below it; raises a `UserError` otherwise."""
    trained = _model_in(path)
    if trained is None:
        files = model_files(path)
        if not files:
            raise UserError(f"{path} {_why_none(path)}")
        return _open_pretrained(path, files)
    path = trained
    about, files = read_description(path) or {}, files_of_model(path)
    if not files.keys() & {"spm_model_file", "vocab_file"}:
        raise UserError(
            f"{path} has no tokenizer: {ASSETS} has neither {SPM_MODEL} nor {VOCABULARY}"
        )
    files["albert_config_file"] = _asset(path, CONFIG)
    folder = assemble_folder(path, about, _weights(path), files)
    _check_against_record(folder, files)
    return folder


def _open_pretrained(path: str, files: Mapping[str, str]) -> ModelFolder:
    """Opens a model that others made; `files` are those of `model_files`."""
    about = description_of(files)
    if not files.keys() & {"spm_model_file", "vocab_file"}:
        raise UserError(
            f"{path} has no tokenizer: no vocab.txt, tokenizer.json or SentencePiece model"
        )
    folder = assemble_folder(path, about, resolve_checkpoint(files["init_checkpoint"]), files)
    longest = about.get("max_seq_length", folder.config.max_position_embeddings)
    return folder._replace(description={**about, "max_seq_length": longest})


def _check_against_record(folder: ModelFolder, files: dict[str, str]) -> None:
    """Raises a `UserError` if the run's record says that its weights belong to another model."""
    about = folder.description
    model = used_model(folder.config.forward_values(), files, about.get("do_lower_case", True))
    recorded = recorded_model(folder.checkpoint) or {}
    if differences := model_differences(recorded, {**model, "task": about["task"]}):
        raise UserError(
            f"{os.path.join(folder.path, ASSETS)} contradicts {RECORD}: the model was trained with "
            f"{', '.join(differences)}; repeat the command that trained it, which trains nothing "
            "and writes the folder again"
        )


def assemble_folder(
    path: str, description: dict[str, Any], checkpoint: str, files: Mapping[str, str]
) -> ModelFolder:
    """Assembles a model from files in any folders, to which messages refer as `path`.

    `files` has the configuration and the tokenizer by flag. Raises a `UserError` if one of them is
    invalid, or they belong to different models.
    """
    lower = description.get("do_lower_case", True)
    tokenizer = FullTokenizer(files.get("vocab_file"), lower, files.get("spm_model_file"))
    tokenizer.check()
    config = read_config(files["albert_config_file"])
    if tokenizer.size != config.vocab_size:
        raise UserError(
            f"{path}: the tokenizer has {tokenizer.size} pieces, but the configuration has a "
            f"vocab_size of {config.vocab_size}; they belong to different models"
        )
    longest = description.get("max_seq_length", 1)
    if longest > config.max_position_embeddings:
        raise UserError(
            f"{path}: {DESCRIPTION} has a max_seq_length of {longest}, but the model takes "
            f"at most {config.max_position_embeddings}; they belong to different models"
        )
    return ModelFolder(path, description, checkpoint, config, tokenizer)


def is_model_folder(path: str) -> bool:
    """Returns whether a folder has a model with the files that inference needs."""
    return os.path.exists(_asset(path, DESCRIPTION))


def _asset(path: str, name: str) -> str:
    return os.path.join(path, ASSETS, name)


def _model_in(path: str) -> str | None:
    """Returns the folder of the only trained model in or below a folder; None if none exists."""
    if not os.path.isdir(path):
        what = "is a file, not a folder" if os.path.exists(path) else "does not exist"
        raise UserError(f"{path} {what}; {_WHAT_TO_PASS}")
    if is_model_folder(path):
        return path
    below = [os.path.join(glob.escape(path), *depth, "*") for depth in ((), ("saved_model",))]
    models = [p for pattern in below for p in sorted(glob.glob(pattern)) if is_model_folder(p)]
    if len(models) == 1:
        return models[0]
    if models:
        raise UserError(f"{path} has several models; pass one of them: {', '.join(models)}")
    return None


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
    return f"has no model; {_WHAT_TO_PASS}"


def _weights(path: str) -> str:
    """Returns the checkpoint of a model: the exported one, the best one, or the newest."""
    exported = os.path.join(path, _EXPORTED)
    checkpoint = exported if os.path.exists(f"{exported}.index") else best_or_newest(path)
    if not checkpoint:
        raise UserError(f"{path} has no weights: neither {_EXPORTED}.index nor {BEST}.index")
    return resolve_checkpoint(checkpoint)
