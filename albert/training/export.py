"""Exports SavedModels for serving."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Mapping

import tensorflow.compat.v1 as tf

from albert.checkpoints.model_folder import Assets, read_description, write_assets
from albert.devices import device
from albert.prediction.session import PredictSession, placeholders
from albert.training.output_folder import checkpoint_to_use
from albert.training.task import Task


def export_saved_model(
    model_fn: Callable,
    export_dir: str,
    checkpoint: str,
    specs: Mapping[str, tf.TensorSpec],
    assets: Assets,
) -> str:
    """Writes a SavedModel to `export_dir/saved_model/<time>` and returns that folder.

    The folder appears only when it is complete, with the assets in `assets.extra/`. The default
    signature takes the inputs in `specs`, with any batch size and any length up to the model's
    longest sequence, and returns the predictions of the `model_fn`.
    """
    session = PredictSession(model_fn, placeholders(specs))
    session.load(checkpoint)
    target = os.path.join(export_dir, "saved_model")
    os.makedirs(target, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target, prefix=".temp-") as beside:
        made = os.path.join(beside, "model")
        session.save(made)
        session.close()
        write_assets(made, assets)
        stamp = int(time.time())
        while os.path.exists(folder := os.path.join(target, str(stamp))):
            stamp += 1
        os.rename(made, folder)
    tf.logging.info("Exported %s to %s", checkpoint, folder)
    return folder


def export_best(task: Task) -> str:
    """Exports the best checkpoint as a SavedModel below --export_dir; returns its folder."""
    settings = task.settings
    # In float32 and without a card's operations, because the server may have another device.
    with device.as_cpu():
        checkpoint = checkpoint_to_use(settings)
        return export_saved_model(
            task.model_fn(None),
            settings.export_dir,
            checkpoint,
            task.serving_inputs(),
            _assets_of(task, checkpoint),
        )


def _assets_of(task: Task, checkpoint: str) -> Assets:
    """Returns a checkpoint's assets, with the values that its training recorded."""
    own, recorded = task.assets(), read_description(os.path.dirname(checkpoint))
    if recorded is None:
        return own
    # The flags of these values were checked against `run.json`.
    names = {"task", "do_lower_case", "label_threshold"} & own.description.keys()
    checked = {name: own.description[name] for name in names}
    return own._replace(description={**own.description, **recorded, **checked})
