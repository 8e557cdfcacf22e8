"""Checks that a model's configuration and tokenizer are those that its weights were trained with.

ALBERT shares weights between layers, so a checkpoint fits any number of layers and heads: with a
wrong configuration the model computes other answers and raises no error. The training's settings
are in `run.json` next to the weights, or in the `config.json` of a `transformers` folder.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import tensorflow.compat.v1 as tf

from albert.checkpoints.checkpoint_files import (
    best_or_newest,
    load_checkpoint,
    resolve_checkpoint,
)
from albert.checkpoints.transformers_folder import is_transformers_folder
from albert.core.errors import FlagError
from albert.core.files import content_of
from albert.training.run_record import RECORD, recorded_settings, recorded_task
from albert.training.task import TRAIN, Task

_CONFIG = "albert_config_file"
_TOKENIZERS = ("spm_model_file", "vocab_file")


def check_weights(task: Task) -> None:
    """Checks that the flags describe the model that was trained.

    A prediction with the weights in --output_dir is checked against the run there. A training, or
    a prediction with other weights, is checked against the record next to --init_checkpoint. A
    training may start from the weights of another task.

    Raises:
      FlagError: the flags describe another model.
    """
    settings, model = task.settings, task.model()
    trains = TRAIN in task.requested_splits()
    if not trains:
        model = {**model, **task.identity()}
    if not trains and best_or_newest(settings.output_dir):
        check_model(settings.output_dir, model, "--output_dir")
    elif settings.init_checkpoint:
        check_model(settings.init_checkpoint, model, "--init_checkpoint")


def check_model(path: str, model: Mapping[str, Any], flag: str) -> None:
    """Checks a model against the record next to its weights; logs a line if there is no record.

    Args:
      path: path of the weights, or the folder of their run.
      model: the model's properties, see `Task.model` and `Task.identity`.
      flag: the flag that names the path.

    Raises:
      FlagError: another model was trained.
    """
    recorded = recorded_model(path)
    if recorded is None:
        tf.logging.info(
            "%s %s has no %s: cannot check whether it was trained with this configuration and "
            "tokenizer",
            flag,
            path,
            RECORD,
        )
    elif found := differences(recorded, model):
        remedy = "give the files and flags of its training"
        if is_transformers_folder(path):
            remedy = f"give --{_CONFIG}={os.path.join(path, 'config.json')}"
        raise FlagError(f"{flag} {path} was trained with {', '.join(found)}; {remedy}")


def used_model(
    config: Mapping[str, Any], tokenizer_files: Mapping[str, str | None], do_lower_case: bool
) -> dict[str, Any]:
    """Returns the properties of a model for `differences`.

    Args:
      config: the configuration's values that the forward pass depends on.
      tokenizer_files: paths by flag; of `spm_model_file` and `vocab_file` the first one given is
        used.
      do_lower_case: the tokenizer's setting.
    """
    flag, file = next((f, file) for f in _TOKENIZERS if (file := tokenizer_files.get(f)))
    return {_CONFIG: config, flag: content_of(file), "do_lower_case": do_lower_case}


def recorded_model(path: str) -> dict[str, Any] | None:
    """Returns a model's properties from the record next to its weights; None without a record.

    Raises:
      UserError: there are no weights, or the record is damaged.
    """
    if is_transformers_folder(path):
        return {_CONFIG: load_checkpoint(resolve_checkpoint(path)).config}
    folder = path
    if recorded_settings(path) is None:
        folder = os.path.dirname(os.path.abspath(resolve_checkpoint(path)))
    settings = recorded_settings(folder)
    if settings is None:
        return None
    task = recorded_task(folder)
    return settings if task is None else {**settings, "task": task}


def differences(recorded: Mapping[str, Any], model: Mapping[str, Any]) -> list[str]:
    """Returns human-readable differences between a model and a record.

    Properties that only one of them has are ignored.

    Args:
      recorded: properties from `recorded_model`.
      model: properties as in `check_model`.
    """
    found = [
        f"{'' if name == 'task' else '--'}{name} {recorded[name]}, not {model[name]}"
        for name in (model.keys() & recorded.keys()) - {_CONFIG, *_TOKENIZERS}
        if model[name] != recorded[name]
    ]
    if recorded.get(_CONFIG) and _CONFIG in model:
        found += _differences_of_configs(recorded[_CONFIG], model[_CONFIG])
    was, used = (
        {name: values[name] for name in _TOKENIZERS if values.get(name)}
        for values in (recorded, model)
    )
    if was and used and was != used:
        found.append(f"another --{next(iter(was))} than this --{next(iter(used))}")
    return sorted(found)


def _differences_of_configs(was: Mapping[str, Any], used: Mapping[str, Any]) -> list[str]:
    kinds = ["an ALBERT" if "embedding_size" in config else "a BERT" for config in (was, used)]
    if kinds[0] != kinds[1]:
        return [f"{kinds[0]}, not {kinds[1]} as in --{_CONFIG}"]
    return [
        f"{key} {was[key]}, not the {used[key]} of --{_CONFIG}"
        for key in used.keys() & was.keys()
        if used[key] != was[key]
    ]
