"""Exports SavedModels for serving."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping

import tensorflow.compat.v1 as tf

from albert.checkpoints.checkpoint_files import as_files, check_fits, restoring
from albert.checkpoints.model_folder import Assets, write_assets
from albert.core import estimators


def export_saved_model(
    estimator: estimators.Estimator,
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

    def inputs() -> estimators.ServingInputReceiver:
        tensors = {n: tf.placeholder(spec.dtype, spec.shape, n) for n, spec in specs.items()}
        return estimators.ServingInputReceiver(tensors, tensors)

    with tf.Graph().as_default():
        # Without a seed, a deterministic run cannot create random operations such as initializers.
        tf.set_random_seed(estimator.config.tf_random_seed)
        estimator.model_fn(inputs().features, None, estimators.ModeKeys.PREDICT, estimator.config)
        check_fits(checkpoint, tf.global_variables())
    target = os.path.join(export_dir, "saved_model")
    # `as_files` converts a `transformers` folder here.
    with (
        restoring(checkpoint),
        as_files(checkpoint) as files,
        tempfile.TemporaryDirectory() as beside,
    ):
        extra = {os.path.basename(path): path for path in write_assets(beside, assets)}
        folder = estimator.export_saved_model(target, inputs, extra, checkpoint_path=files)
    folder = folder.decode()
    tf.logging.info("Exported %s to %s", checkpoint, folder)
    return folder
