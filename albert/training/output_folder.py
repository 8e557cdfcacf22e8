"""Checks on the folder of a run: its settings and its checkpoints."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import Any

import tensorflow.compat.v1 as tf

from albert.checkpoints.checkpoint_files import (
    best_or_newest,
    content_of_checkpoint,
    list_checkpoints,
    load_checkpoint,
    newest_checkpoint,
    resolve_checkpoint,
)
from albert.checkpoints.initialization import optimizer_variables
from albert.checkpoints.model_files import model_of_checkpoint
from albert.checkpoints.model_folder import (
    RECORD,
    check_model,
    read_description,
    read_run_record,
    recorded_settings,
    write_assets,
)
from albert.core.errors import FlagError, UserError
from albert.core.files import content_of
from albert.distributed import collectives
from albert.records import TRAIN
from albert.settings.fields import Affects
from albert.settings.run_settings import RunSettings
from albert.training.run_record import check_run
from albert.training.task import Task
from albert.training.task_model import TaskModel


def training_settings(task: Task, contents: Mapping[str, Any]) -> dict:
    """Returns the settings that weights depend on; `contents` are those of the training split."""
    settings = task.settings
    return {
        **settings.affecting(Affects.WEIGHTS),
        "number of workers": collectives.size(),
        "bf16 configuration": precision_digest(task),
        "init_checkpoint": _checkpoint_content(settings),
        **contents,
    }


def scoring_settings(task: Task, contents: Mapping[str, Any]) -> dict:
    """Returns the settings that scores depend on except the checkpoint; see `training_settings`."""
    settings = task.settings
    record = os.path.join(settings.output_dir, RECORD)
    has_checkpoints = bool(list_checkpoints(settings.output_dir))
    return {
        # If the folder has checkpoints, the initial one is not scored.
        "init_checkpoint": None if has_checkpoints else _checkpoint_content(settings),
        "run": content_of(record) if os.path.exists(record) else None,
        "bf16 configuration": precision_digest(task),
        **settings.affecting(Affects.SCORES),
        **contents,
    }


def split_settings(task: Task, split: str, contents: Mapping[str, Any]) -> dict:
    """Returns a split's settings that all workers must share, as in `training_settings`."""
    if split == TRAIN:
        return training_settings(task, contents)
    return {**task.settings.affecting(Affects.SCORES | Affects.JOB), **contents}


def precision_digest(task: Task) -> str | None:
    """Returns a digest of the list of operations in low precision; None for float32."""
    config = TaskModel(task).precision_config()
    return config.digest() if config else None


def _checkpoint_content(settings: RunSettings) -> str | None:
    """Returns a digest of the initial checkpoint's values; None without one."""
    if not settings.init_checkpoint:
        return None
    return content_of_checkpoint(resolve_checkpoint(settings.init_checkpoint))


def check_weights(task: Task) -> None:
    """Raises a `FlagError` unless the flags describe the model that was trained.

    A prediction with the weights in --output_dir is checked against the run there. A training, or
    a prediction with other weights, is checked against the record next to --init_checkpoint. A
    training may start from the weights of another task.
    """
    settings, model = task.settings, task.model()
    trains = TRAIN in task.splits
    if not trains:
        model = {**model, **task.identity()}
    if not trains and best_or_newest(settings.output_dir):
        check_model(settings.output_dir, model, "--output_dir")
    elif settings.init_checkpoint:
        continues = trains and not settings.overwrite_output_dir
        if continues and read_run_record(settings.output_dir):
            # It was checked when it began, and `check_output_dir` compares it with that run.
            return
        check_model(settings.init_checkpoint, model, "--init_checkpoint")


def check_output_dir(settings: RunSettings, current: dict) -> None:
    """Raises a `FlagError` if --output_dir has another run, or --init_checkpoint would be lost."""
    output_dir, initial = settings.output_dir, settings.init_checkpoint
    if initial:
        folder, name = os.path.split(os.path.realpath(resolve_checkpoint(initial)))
        if folder == os.path.realpath(output_dir) and name.startswith("model.ckpt-"):
            raise FlagError(
                f"--init_checkpoint {initial} would be replaced or removed by this run, which "
                "writes its own checkpoints there; give another --output_dir"
            )
    if settings.overwrite_output_dir:
        return
    if settings.follows and not initial:
        current = {**current, "init_checkpoint": _start_of_follower(settings)}
    check_run(settings, current)


def _start_of_follower(settings: RunSettings) -> str | None:
    """Returns the recorded initial checkpoint of a run that follows another; None for a new run."""
    begun, follows = recorded_settings(settings.output_dir), settings.follows
    if not begun:
        return None
    newest = newest_checkpoint(follows)
    start = newest and content_of_checkpoint(newest[1])
    if start != begun.get("init_checkpoint"):
        # Otherwise this run would be refused only after the other has been trained again.
        raise UserError(
            f"{settings.output_dir} continues {follows}, whose newest checkpoint is no longer the "
            f"one that it started from; restore that, or move {settings.output_dir} away"
        )
    return start


def write_assets_of(task: Task) -> None:
    """Writes the assets; a prediction, whose flags may differ, keeps those of a training."""
    folder, trains = task.settings.output_dir, TRAIN in task.splits
    if trains or not (recorded_settings(folder) or read_description(folder)):
        write_assets(folder, task.assets())


def checkpoint_to_use(settings: RunSettings) -> str:
    """Returns the best, else newest, else initial checkpoint; raises a `UserError` if none."""
    checkpoint = best_or_newest(settings.output_dir) or settings.init_checkpoint
    if not checkpoint:
        raise UserError(
            f"{settings.output_dir} has no checkpoint; train first, or give --init_checkpoint"
        )
    return resolve_checkpoint(checkpoint)


def known_of_model(settings: RunSettings) -> tuple[str, dict[str, Any]]:
    """Returns the folder of `checkpoint_to_use`, and what its files say about the training.

    These are the settings in the record of a run and its description, that of an export or that of
    a folder of `transformers`; empty for a bare checkpoint.

    Raises:
      UserError: there is no checkpoint; only on rank 0, because other hosts need no checkpoint.
    """
    try:
        checkpoint = checkpoint_to_use(settings)
    except UserError:
        if collectives.is_chief():
            raise
        return settings.output_dir, recorded_settings(settings.output_dir) or {}
    model = model_of_checkpoint(checkpoint)
    return model.folder, model.known()


def recorded_labels(settings: RunSettings) -> list:
    """Returns the labels of the model's training; raises a `UserError` if they are unknown."""
    folder, known = known_of_model(settings)
    if (labels := known.get("labels")) is None:
        raise UserError(f"{folder} has no record of a training with labels; train a model first")
    return labels


def init_checkpoint_forgotten(settings: RunSettings) -> bool:
    """Returns whether training starts from random weights without --from_scratch."""
    return settings.from_scratch is False and not settings.init_checkpoint


def warn_if_init_checkpoint_forgotten(settings: RunSettings) -> None:
    """Logs a warning if training starts from random weights without --from_scratch."""
    if init_checkpoint_forgotten(settings):
        tf.logging.warning(
            "--init_checkpoint is not given: this run starts from random weights instead of "
            "pretrained ones; if that is intended, pass --from_scratch"
        )


def warn_of_start(task: Task) -> None:
    """Logs at the end of a training what was wrong with its initial weights, on rank 0.

    The beginning of the log of a long or resumed run is far away.
    """
    settings = task.settings
    warn_if_init_checkpoint_forgotten(settings)
    trained = best_or_newest(settings.output_dir)
    if not (settings.init_checkpoint and trained):
        return
    shapes = load_checkpoint(trained).get_variable_to_shape_map()
    names = shapes.keys() - optimizer_variables(shapes) - {tf.GraphKeys.GLOBAL_STEP}
    # The initial checkpoint may have been removed since.
    with contextlib.suppress(UserError):
        for warning in TaskModel(task).compare({name: shapes[name] for name in names}).warnings():
            tf.logging.warning("%s", warning)
