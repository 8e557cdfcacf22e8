"""Folders of models: those of --export_dir, or an --output_dir, with their `assets.extra`."""

from __future__ import annotations

import glob
import os
from typing import Any, NamedTuple

from albert.checkpoints.checkpoint_files import BEST, best_or_newest, resolve_checkpoint
from albert.core.errors import UserError
from albert.modeling import BertConfig, EncoderConfig, read_config
from albert.tokenization import FullTokenizer
from albert.training import assets
from albert.training.description import read_description
from albert.training.recorded_model import differences, recorded_model, used_model
from albert.training.run_record import RECORD

# The weights of a SavedModel: a checkpoint with the names of the model's variables.
_EXPORTED = os.path.join("variables", "variables")


class ModelFolder(NamedTuple):
    """A model on disk, and what its program knew of it.

    Attributes:
      path: the folder.
      description: what `assets.extra/model.json` says.
      checkpoint: prefix of the weights.
      config: sizes of the encoder.
      tokenizer: of the model.
    """

    path: str
    description: dict[str, Any]
    checkpoint: str
    config: EncoderConfig
    tokenizer: FullTokenizer

    def __str__(self) -> str:
        sizes = f"{self.config.num_hidden_layers} layers of {self.config.hidden_size}"
        family = "BERT" if isinstance(self.config, BertConfig) else "ALBERT"
        task = self.description.get("task", "no task")
        return f"{family} of {sizes}, {task}, in {self.path!r}"

    def value(self, name: str) -> Any:
        """Returns a value of the description.

        Raises:
          UserError: there is none.
        """
        if name not in self.description:
            raise UserError(
                f"{_asset(self.path, assets.DESCRIPTION)} does not say {name}; it is damaged, or "
                "of another version of this project"
            )
        return self.description[name]


def open_folder(path: str) -> ModelFolder:
    """Opens a model: its folder, or one above that has no other.

    Raises:
      UserError: there is no model, there are several, or something is missing.
    """
    path = _model_in(path)
    about = read_description(os.path.join(path, assets.FOLDER))
    tokenizer = _tokenizer(path, about.get("do_lower_case", True))
    folder = assemble_folder(path, about, _weights(path), _asset(path, assets.CONFIG), tokenizer)
    _check_against_record(folder)
    return folder


def _check_against_record(folder: ModelFolder) -> None:
    """Raises a `UserError` if a run's record says that its weights are of another model."""
    about = folder.description
    model = used_model(
        folder.config.forward_values(),
        _tokenizer_files(folder.path),
        about.get("do_lower_case", True),
    )
    recorded = recorded_model(folder.checkpoint) or {}
    if found := differences(recorded, {**model, "task": about["task"]}):
        raise UserError(
            f"{os.path.join(folder.path, assets.FOLDER)} contradicts {RECORD}: the model was "
            f"trained with {', '.join(found)}; give the command that trained it again, which "
            "trains nothing and writes the folder anew"
        )


def assemble_folder(
    path: str,
    description: dict[str, Any],
    checkpoint: str,
    config_file: str,
    tokenizer: FullTokenizer,
) -> ModelFolder:
    """Returns a model of parts that may lie anywhere; `path` is what messages call it.

    Raises:
      UserError: configuration or tokenizer are no good, or not of the same model.
    """
    tokenizer.check()
    config = read_config(config_file)
    if tokenizer.size != config.vocab_size:
        raise UserError(
            f"{path}: the tokenizer has {tokenizer.size} pieces, the configuration a vocab_size of "
            f"{config.vocab_size}: they are not of the same model"
        )
    longest = description.get("max_seq_length", 1)
    if longest > config.max_position_embeddings:
        raise UserError(
            f"{path}: {assets.DESCRIPTION} has a max_seq_length of {longest}, the model takes "
            f"{config.max_position_embeddings} at most: they are not of the same model"
        )
    return ModelFolder(path, description, checkpoint, config, tokenizer)


def is_model_folder(path: str) -> bool:
    """Tells whether a folder is that of a model with what text needs."""
    return os.path.exists(_asset(path, assets.DESCRIPTION))


def _asset(path: str, name: str) -> str:
    return os.path.join(path, assets.FOLDER, name)


def _model_in(path: str) -> str:
    """Returns the folder of the only model in or below a folder."""
    if not os.path.isdir(path):
        what = "a file, no folder" if os.path.exists(path) else "no folder"
        raise UserError(f"{path} is {what}; give what --export_dir or --output_dir has made")
    if is_model_folder(path):
        return path
    below = [os.path.join(glob.escape(path), *depth, "*") for depth in ((), ("saved_model",))]
    found = [p for pattern in below for p in sorted(glob.glob(pattern)) if is_model_folder(p)]
    if len(found) == 1:
        return found[0]
    if found:
        raise UserError(f"{path} has several models, give one of them: {', '.join(found)}")
    raise UserError(f"{path} {_why_none(path)}")


def _why_none(path: str) -> str:
    """Says what is missing in a folder that is no model's."""
    missing = f"has no {assets.FOLDER}/{assets.DESCRIPTION}, from which tokenizer and lengths come"
    again = "a version before 0.2.0 made it, or it was not copied whole"
    exported = ("saved_model.pb", "*/saved_model.pb", "saved_model/*/saved_model.pb")
    if any(glob.glob(os.path.join(glob.escape(path), pattern)) for pattern in exported):
        return f"{missing}: {again}; export the model again with --export_dir"
    if glob.glob(os.path.join(glob.escape(path), "*.ckpt*.index")):
        return (
            f"{missing}: {again}; give the command that trained the model again, which trains "
            "nothing and writes it"
        )
    return "holds no model; give what --export_dir or --output_dir has made"


def _tokenizer(path: str, do_lower_case: bool) -> FullTokenizer:
    files = _tokenizer_files(path)
    return FullTokenizer(files.get("vocab_file"), do_lower_case, files.get("spm_model_file"))


def _tokenizer_files(path: str) -> dict[str, str]:
    """Returns the file of the tokenizer, by the flag that names it.

    Raises:
      UserError: there is none.
    """
    for flag, name in (("spm_model_file", assets.SPM_MODEL), ("vocab_file", assets.VOCABULARY)):
        if os.path.exists(_asset(path, name)):
            return {flag: _asset(path, name)}
    raise UserError(
        f"{path} has no tokenizer: neither {assets.SPM_MODEL} nor {assets.VOCABULARY} is in its "
        f"{assets.FOLDER}"
    )


def _weights(path: str) -> str:
    """Returns the checkpoint of a model: what was exported, the best one, or the newest."""
    exported = os.path.join(path, _EXPORTED)
    found = exported if os.path.exists(f"{exported}.index") else best_or_newest(path)
    if not found:
        raise UserError(f"{path} has no weights: neither {_EXPORTED}.index nor {BEST}.index")
    return resolve_checkpoint(found)
