"""Model folders: an export, an --output_dir, a pretrained model, or one of `transformers`."""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from albert.checkpoints.checkpoint_files import resolve_checkpoint
from albert.checkpoints.model_files import (
    pretrained_files,
    trained_model_in,
    weights_of,
)
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
from albert.checkpoints.pretrained import description_of
from albert.core.errors import UserError
from albert.download.named_model import WHAT_TO_PASS, local_folder
from albert.modeling import BertConfig, EncoderConfig, read_config
from albert.settings.engines import TENSORFLOW
from albert.tokenization import FullTokenizer


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
    """Opens a model by its folder, a folder above it or its name; raises a `UserError` if none."""
    path = local_folder(path)
    trained = trained_model_in(path)
    if trained is None:
        files = pretrained_files(path)
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
    folder = assemble_folder(path, about, weights_of(path), files)
    _check_against_record(folder, files)
    return folder


def _open_pretrained(path: str, files: Mapping[str, str]) -> ModelFolder:
    """Opens a model that others made; `files` are those of `pretrained_files`."""
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
    model = used_model(folder.config.forward_values(), files, folder.tokenizer.normalization)
    recorded, task = recorded_model(folder.checkpoint) or {}, folder.description["task"]
    if differences := model_differences(recorded, {**model, "task": task}):
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
    tokenizer = FullTokenizer.of(files, description)
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


def _asset(path: str, name: str) -> str:
    return os.path.join(path, ASSETS, name)


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
    return f"has no model; {WHAT_TO_PASS}"
