"""SavedModels for serving."""

from __future__ import annotations

import os
from collections.abc import Mapping

import tensorflow.compat.v1 as tf

from runtime import estimators
from runtime.checkpoints.checkpoint_files import as_files, check_fits, restoring


def export_saved_model(
    estimator: estimators.Estimator,
    export_dir: str,
    checkpoint: str,
    specs: Mapping[str, tf.TensorSpec],
) -> str:
    """Writes a SavedModel to `export_dir/saved_model/<time>` and returns that folder.

    Its default signature takes what `specs` say, for any batch size and any length up to the
    model's longest sequence, and gives the predictions of the `model_fn`.
    """

    def inputs() -> estimators.ServingInputReceiver:
        tensors = {n: tf.placeholder(spec.dtype, spec.shape, n) for n, spec in specs.items()}
        return estimators.ServingInputReceiver(tensors, tensors)

    with tf.Graph().as_default():
        estimator.model_fn(inputs().features, None, estimators.ModeKeys.PREDICT, estimator.config)
        check_fits(checkpoint, tf.global_variables())
    target = os.path.join(export_dir, "saved_model")
    with restoring(checkpoint), as_files(checkpoint) as files:
        folder = estimator.export_saved_model(target, inputs, checkpoint_path=files).decode()
    tf.logging.info("Exported %s to %s", checkpoint, folder)
    return folder
