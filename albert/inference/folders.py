"""Model folders: an export, an --output_dir, a pretrained model, or one of `transformers`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from albert.checkpoints.checkpoint_files import resolve_checkpoint
from albert.checkpoints.folder_contract import CONFIG
from albert.checkpoints.model_folder import (
    ASSETS,
    DESCRIPTION,
    RECORD,
    TOKENIZERS,
    ModelFolder,
    model_differences,
    quantized_encoder,
    used_model,
)
from albert.core.errors import UserError
from albert.modeling import EncoderConfig, read_config
from albert.precision.configuration import PrecisionConfig
from albert.settings.engines import TENSORFLOW
from albert.tasks import completed
from albert.tokenization import FullTokenizer


class OpenModel(NamedTuple):
    """A model on disk, with the settings that inference needs.

    Attributes:
      description: content of `assets.extra/model.json`, or of `albert.tasks.completed`.
      checkpoint: prefix of the weights.
      engine: what computes the encoder, a value of --engine.
      low: the operations of the encoder in low precision, if any.
    """

    path: str
    description: dict[str, Any]
    checkpoint: str
    config: EncoderConfig
    tokenizer: FullTokenizer
    engine: str = TENSORFLOW
    low: PrecisionConfig | None = None

    @property
    def precision(self) -> str:
        """Returns the type of the products, "float32" or "bfloat16"."""
        return self.low.dtype.name if self.low else "float32"

    @property
    def encoder_precision(self) -> str:
        """Returns the type of the encoder's products: `precision`, or "int8" if quantized."""
        return "int8" if quantized_encoder(self.path) else self.precision

    def value(self, name: str) -> Any:
        """Returns a value of the description; raises a `UserError` if it does not exist."""
        if name not in self.description:
            raise UserError(
                f"{described_in(self.path)} has no {name}; the file is damaged, or another version "
                "of this project wrote it"
            )
        return self.description[name]


def described_in(path: str) -> str:
    """Returns the file in which a model's folder describes it."""
    own, theirs = os.path.join(path, ASSETS, DESCRIPTION), os.path.join(path, CONFIG)
    return theirs if os.path.exists(theirs) and not os.path.exists(own) else own


def open_folder(path: str) -> OpenModel:
    """Opens a model by its folder, a folder above it or its name; raises a `UserError` if none."""
    return open_model(ModelFolder.find(path))


def open_model(model: ModelFolder, normalization: Mapping[str, Any] = {}) -> OpenModel:
    """Opens a model by its files, in any folders.

    `normalization` has fields of `Normalization` that they may lack. Raises a `UserError` if a file
    is missing or invalid, or files belong to different models.
    """
    path, files, about = model.path, model.files, {**completed(model).description, **normalization}
    if not files.keys() & TOKENIZERS.keys():
        raise UserError(
            f"{path} has no tokenizer: no vocab.txt, tokenizer.json or SentencePiece model"
        )
    tokenizer = FullTokenizer.of(files, about)
    config = read_config(files["albert_config_file"])
    tokenizer.check_size(config.vocab_size, files["albert_config_file"])
    if not model.is_trained:
        about.setdefault("max_seq_length", config.max_position_embeddings)
    longest = about.get("max_seq_length", 1)
    if longest > config.max_position_embeddings:
        raise UserError(
            f"{described_in(path)}, or a file next to it, has a max_seq_length of {longest}, but "
            f"the model takes at most {config.max_position_embeddings}; correct one of the values"
        )
    checkpoint = resolve_checkpoint(files["init_checkpoint"])
    if model.is_trained:
        used = used_model(config.forward_values(), files, tokenizer.normalization)
        recorded = model.recorded_model()
        if differences := model_differences(recorded, {**used, "task": about["task"]}):
            raise UserError(
                f"{os.path.join(path, ASSETS)} contradicts {RECORD}: the model was trained with "
                f"{', '.join(differences)}; repeat the command that trained it, which trains "
                "nothing and writes the folder again"
            )
    return OpenModel(path, about, checkpoint, config, tokenizer)
