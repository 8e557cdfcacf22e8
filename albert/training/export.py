"""Exports SavedModels for serving."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Mapping

import tensorflow.compat.v1 as tf

from albert.checkpoints.model_folder import Assets, write_assets
from albert.prediction.session import PredictSession, placeholders


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
