"""The TensorFlow checkpoint to convert, with the configuration and records saved with it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from albert.checkpoints import transformers_names as names
from albert.checkpoints.checkpoint_files import (
    BEST,
    check_finite,
    load_checkpoint,
    resolve_checkpoint,
)
from albert.checkpoints.initialization import optimizer_variables
from albert.checkpoints.model_folder import (
    RECORD,
    ModelFolder,
    recorded_scores,
    refuse_quantized,
)
from albert.checkpoints.transformers_folder import STEP
from albert.core.errors import FlagError, UserError
from albert.core.text import listed
from albert.model.config import AlbertConfig, BertConfig, read_config

CONFIGS = {AlbertConfig: "albert_config.json", BertConfig: "bert_config.json"}


class Source(NamedTuple):
    """A checkpoint by its prefix, with its model, configuration and scores, which may be empty."""

    checkpoint: str
    model: ModelFolder
    config: AlbertConfig | BertConfig
    scores: Mapping

    @property
    def family(self) -> str:
        """Returns the model's type in `transformers`."""
        return "bert" if isinstance(self.config, BertConfig) else "albert"


def find_source(path: str, config_file: str | None) -> Source:
    """Finds a checkpoint by its prefix, its folder, or the folder of a run, which has a best one.

    The configuration is next to the checkpoint if `config_file` is None. Raises a `UserError` for a
    missing checkpoint or a damaged file, and a `FlagError` for a missing configuration.
    """
    checkpoint = resolve_checkpoint(path)
    model = ModelFolder.of_checkpoint(checkpoint)
    refuse_quantized(model.path)
    scores = recorded_scores(model.path) if model.record else {}
    if os.path.basename(checkpoint) not in (BEST, scores.get("checkpoint")):
        # They belong to another checkpoint.
        scores = {}
    return Source(checkpoint, model, _config(model, config_file), scores)


def _config(model: ModelFolder, config_file: str | None) -> AlbertConfig | BertConfig:
    if config_file:
        return read_config(config_file)
    recorded = model.record.get("settings", {}).get("albert_config_file")
    if isinstance(recorded, dict):
        # The record of a run with --deterministic_run has no dropout.
        if os.path.exists(kept := model.files["albert_config_file"]):
            return read_config(kept)
        is_albert = "num_hidden_groups" in recorded
        return AlbertConfig.from_dict(recorded) if is_albert else BertConfig.from_dict(recorded)
    beside = [os.path.join(model.path, name) for name in CONFIGS.values()]
    configs = [path for path in beside if os.path.exists(path)]
    if len(configs) != 1:
        raise FlagError(
            f"--albert_config_file is required: {model.path} does not have exactly one of "
            f"{' and '.join(CONFIGS.values())}, and has no {RECORD} of a run"
        )
    return read_config(configs[0])


class Variables(NamedTuple):
    """The weights in a checkpoint, by their names in `transformers`.

    `parts` are the model's parts in the checkpoint; `step` is None if the checkpoint has none.
    """

    values: dict[str, np.ndarray]
    parts: list[str]
    step: int | None


def read_variables(source: Source) -> Variables:
    """Reads a checkpoint's weights; raises a `UserError` if they do not fit or are not finite."""
    reader = load_checkpoint(source.checkpoint)
    shapes = reader.get_variable_to_shape_map()
    step = int(reader.get_tensor(STEP)) if shapes.pop(STEP, None) is not None else None
    shapes = {name: shapes[name] for name in shapes.keys() - optimizer_variables(shapes)}
    config = source.config.to_dict()
    pairs = names.pairs_of(source.family, config)
    parts = names.parts_in(pairs, shapes, source.checkpoint, theirs=False)
    dtypes = reader.get_variable_to_dtype_map()
    if others := [name for name in shapes if dtypes[name] != tf.float32]:
        raise UserError(f"{source.checkpoint} has {listed(sorted(others))}, not of type float32")
    needed = [pair for part in parts for pair in pairs[part]]
    check_finite(source.checkpoint, reader, [pair.ours for pair in needed])
    values = {}
    for pair in needed:
        value = reader.get_tensor(pair.ours)
        values[pair.theirs] = np.ascontiguousarray(value.T) if pair.is_transposed else value
    if source.family == "albert" and config["embedding_size"] == config["hidden_size"]:
        for pair in names.mapping_in(config):
            values[pair.theirs] = np.zeros(pair.shape, np.float32)
            if pair.is_transposed:
                np.fill_diagonal(values[pair.theirs], 1.0)
    pooler = [pair.theirs for pair in pairs[names.POOLER] if names.POOLER in parts]
    if names.WITHOUT_POOLER & {*parts} and not any(values[name].any() for name in pooler):
        # A pooler of zeros means that the model had none in `transformers`; see
        # `TransformersFolder`.
        values = {name: value for name, value in values.items() if name not in pooler}
    return Variables(values, parts, step)
