"""Exports SavedModels for serving."""

from __future__ import annotations

import os
import tempfile
import time

import tensorflow.compat.v1 as tf

from albert.checkpoints.model_folder import Assets, read_description, write_assets
from albert.devices import device
from albert.prediction.session import PredictSession, placeholders
from albert.records.batches import batch_spec
from albert.records.sequences import SEQUENCE_KEYS
from albert.tokenizers.text_rules import Normalization
from albert.training.output_folder import checkpoint_to_use
from albert.training.task import Task
from albert.training.task_model import assets_of, model_fn


def export_best(task: Task) -> str:
    """Exports the best checkpoint as a SavedModel, and returns its folder.

    The folder, `saved_model/<time>` in --export_dir, appears only when it is complete, with the
    assets in `assets.extra/`. The default signature takes the inputs of the task, with any batch
    size and any length up to the model's longest sequence, and returns its predictions.
    """
    checkpoint = checkpoint_to_use(task.settings)
    assets = _assets_of(task, checkpoint)
    # In float32 and without a card's operations, because the server may have another device.
    with device.as_cpu():
        specs = batch_spec(task.model_inputs(), None, trims=True)
        inputs = placeholders({key: specs[key] for key in SEQUENCE_KEYS})
        session = PredictSession(model_fn(task, None), inputs)
        session.load(checkpoint)
    target = os.path.join(task.settings.export_dir, "saved_model")
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


def _assets_of(task: Task, checkpoint: str) -> Assets:
    """Returns a checkpoint's assets, with the values that its training recorded."""
    own, recorded = assets_of(task), read_description(os.path.dirname(checkpoint))
    if recorded is None:
        return own
    # The flags of these values were checked against `run.json`.
    names = {"task", *Normalization._fields, "label_threshold"} & own.description.keys()
    checked = {name: own.description[name] for name in names}
    return own._replace(description={**own.description, **recorded, **checked})
