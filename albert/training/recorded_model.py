"""Compares the model that weights are used as with the model that they were trained as.

An ALBERT shares its weights between layers, so that a checkpoint fits any number of layers and
heads: a wrong configuration computes other answers and raises no error. What the weights were
trained with is in `run.json` beside them, or in the `config.json` of a folder of `transformers`.
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
    """Checks that the flags describe the model that the weights were trained as.

    A prediction is checked against the run in --output_dir, a training and a prediction with
    weights from elsewhere against what lies beside --init_checkpoint. A training may be of another
    task than the weights that it starts from.

    Raises:
      FlagError: they describe another model.
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
    """Checks a model against the record beside its weights; without a record, a line says so.

    Args:
      path: of the weights, or the folder of their run.
      model: what is used, see `Task.model` and `Task.identity`.
      flag: that names the path.

    Raises:
      FlagError: the weights were trained as another model.
    """
    recorded = recorded_model(path)
    if recorded is None:
        tf.logging.info(
            "%s %s has no %s: nothing shows whether the configuration and the tokenizer are those "
            "that it was trained with",
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
    """Returns the properties that a model is used with, as `differences` compares them.

    Args:
      config: the values that its forward pass depends on.
      tokenizer_files: by flag; the first of `spm_model_file` and `vocab_file` that is given counts.
      do_lower_case: of the tokenizer.
    """
    flag, file = next((f, file) for f in _TOKENIZERS if (file := tokenizer_files.get(f)))
    return {_CONFIG: config, flag: content_of(file), "do_lower_case": do_lower_case}


def recorded_model(path: str) -> dict[str, Any] | None:
    """Returns the model's properties from the record beside its weights; None without a record.

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
    """Lists how a model differs from a record, for people; what one of them lacks is left out.

    Args:
      recorded: see `recorded_model`.
      model: see `check_model`.
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
