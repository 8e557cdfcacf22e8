"""SavedModels for serving."""

from __future__ import annotations

import os

import tensorflow.compat.v1 as tf

from runtime import estimators
from runtime.checkpoints.checkpoint_files import check_fits, restoring

_INPUTS = ("input_ids", "input_mask", "segment_ids")


def export_saved_model(estimator: estimators.Estimator, export_dir: str, checkpoint: str) -> str:
    """Writes a SavedModel to `export_dir/saved_model/<time>` and returns that folder.

    Its default signature takes `input_ids`, `input_mask` and `segment_ids`, int32 [B, S] for any B
    and any S up to the model's longest sequence, and gives the predictions of the `model_fn`.
    """

    def inputs() -> estimators.ServingInputReceiver:
        tensors = {name: tf.placeholder(tf.int32, [None, None], name) for name in _INPUTS}
        return estimators.ServingInputReceiver(tensors, tensors)

    with tf.Graph().as_default():
        estimator.model_fn(inputs().features, None, estimators.ModeKeys.PREDICT, estimator.config)
        check_fits(checkpoint, tf.global_variables())
    target = os.path.join(export_dir, "saved_model")
    with restoring(checkpoint):
        folder = estimator.export_saved_model(target, inputs, checkpoint_path=checkpoint).decode()
    tf.logging.info("Exported %s to %s", checkpoint, folder)
    return folder
