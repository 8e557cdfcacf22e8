"""Labels of the test set, as the best checkpoint predicts them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import tensorflow.compat.v1 as tf

from albert.core.errors import UserError
from albert.core.files import content_of
from albert.data.batches import Data
from albert.data.cached_file import CachedFile
from albert.distributed import collectives
from albert.training.output_folder import checkpoint_to_use, scoring_settings
from albert.training.prediction import make_predictor
from albert.training.task import Task


def write_labels(task: Task, data: Data, contents: Mapping[str, Any]) -> None:
    """Labels the test set with the best checkpoint, unless the labels already exist.

    Raises a `UserError` without a checkpoint, or for features of another test set.
    """
    predictor = make_predictor(task, data)
    if not collectives.is_chief():
        predictor.follow()
        return
    checkpoint = checkpoint_to_use(task.settings)
    made_from = {"checkpoint": content_of(checkpoint + ".index")}
    labels = _label_files(task, made_from | scoring_settings(task, contents))
    with labels.lock():
        if labels.reusable() is None:
            outputs = predictor.outputs(checkpoint)
            with labels.building() as (names, summary):
                summary |= task.write_labels(data, outputs, names)
    predictor.finish()
    predictor.log_statistics()
    tf.logging.info("Predictions of %s in %s", checkpoint, " and ".join(labels.paths))


def check_labels(task: Task) -> None:
    """Raises a `UserError` if a file of test predictions was not written by this program."""
    labels = _label_files(task, {})
    if labels.is_foreign():
        raise UserError(
            f"{labels.paths[0]} exists and was not written by this program; give another "
            "--output_dir or remove it"
        )


def _label_files(task: Task, made_from: dict) -> CachedFile:
    """Returns the cached files of test predictions, for the sources in `made_from`."""
    folder = task.settings.output_dir
    first, *others = (os.path.join(folder, name) for name in task.label_outputs)
    return CachedFile(first, made_from, others)
