"""Training with an `Estimator`: what all programs have in common."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf2
import tensorflow.compat.v1 as tf

from runtime import graph_keys
from runtime.checkpoints import (
    checkpoint_step,
    list_checkpoints,
    resolve_checkpoint,
    restoring,
)
from runtime.errors import UserError
from runtime.hooks import SaveCheckpoints, TrainingLog


def make_estimator(
    model_fn: Callable, output_dir: str, seed: int, save_summary_steps: int, scoped_allocator: bool
) -> tf.estimator.Estimator:
    """An estimator that keeps all checkpoints, which `train` writes, in `output_dir`.

    Args:
      model_fn: the model.
      output_dir: folder of checkpoints and curves.
      seed: of weights and dropout.
      save_summary_steps: steps between two points of the curves.
      scoped_allocator: let TensorFlow fuse the memory of gradients that are averaged together.
    """
    config = tf.estimator.RunConfig(
        model_dir=output_dir,
        tf_random_seed=seed,
        save_summary_steps=save_summary_steps,
        save_checkpoints_steps=None,
        save_checkpoints_secs=None,
        keep_checkpoint_max=0,
        log_step_count_steps=None,
        session_config=_scoped_allocator_config() if scoped_allocator else None,
    )
    # An estimator warns where a model_fn takes parameters, as the reference's do, and gets none.
    return tf.estimator.Estimator(model_fn, config=config, params={"model_dir": output_dir})


def _scoped_allocator_config() -> tf.ConfigProto:
    config = tf.ConfigProto(allow_soft_placement=True)
    rewrites = config.graph_options.rewrite_options
    rewrites.scoped_allocator_optimization = type(rewrites).ON
    rewrites.scoped_allocator_opts.enable_op.append("HorovodAllreduce")
    return config


def steps_done(output_dir: str) -> int:
    """The step of the newest checkpoint in a folder, 0 if there is none.

    Raises:
      UserError: the newest checkpoint is damaged.
    """
    numbered = list(list_checkpoints(output_dir).values())
    if numbered and not tf.train.latest_checkpoint(output_dir):
        tf.train.update_checkpoint_state(output_dir, os.path.basename(numbered[-1]))
    latest = tf.train.latest_checkpoint(output_dir)
    return checkpoint_step(resolve_checkpoint(latest)) if latest else 0


def train(
    estimator: tf.estimator.Estimator,
    input_fn: Callable,
    num_train_steps: int,
    batch_size: int,
    save_checkpoints_steps: int,
    log_steps: int,
) -> None:
    """Trains from the newest checkpoint, or the beginning, up to step `num_train_steps`.

    Args:
      estimator: from `make_estimator`.
      input_fn: training data from the step that training is at on.
      num_train_steps: the last step.
      batch_size: examples a step, of all workers together.
      save_checkpoints_steps: steps between checkpoints.
      log_steps: steps between log lines.

    Raises:
      UserError: the loss is not finite any more, or the disk is full.
    """
    folder = estimator.model_dir
    hooks = [
        TrainingLog(folder, num_train_steps, batch_size, log_steps),
        SaveCheckpoints(folder, save_checkpoints_steps),
    ]
    try:
        estimator.train(input_fn, hooks=hooks, max_steps=num_train_steps)
    except tf.errors.InvalidArgumentError as e:
        if graph_keys.NOT_FINITE not in e.message:
            raise
        raise UserError(_not_finite_message(folder, hooks[0].step)) from e
    except tf.errors.OpError as e:
        if "OOM" in e.message:
            raise UserError("the device is out of memory; try a lower --train_batch_size") from e
        if "No space left" not in e.message:
            raise
        raise UserError(
            f"{folder}: the disk is full; make room and run the same command again to resume"
        ) from e


def _not_finite_message(folder: str, step: int) -> str:
    latest = tf.train.latest_checkpoint(folder)
    kept = f"the last good checkpoint is {latest}" if latest else "no checkpoint was written yet"
    return (
        f"the loss or its gradients are NaN or infinite at step {step}; nothing was updated with "
        f"them, {kept}; try a lower --learning_rate or a longer warmup in another "
        "--output_dir"
    )


def make_deterministic() -> None:
    """Makes TensorFlow use operations only that give the same bits every time."""
    tf2.config.experimental.enable_op_determinism()


def predict(
    estimator: tf.estimator.Estimator, input_fn: Callable, checkpoint: str
) -> Iterator[dict[str, np.ndarray]]:
    """Yields the predictions of one example after the other, from a checkpoint."""
    batches = estimator.predict(input_fn, checkpoint_path=checkpoint, yield_single_examples=False)
    with restoring(checkpoint):
        for batch in batches:
            for values in zip(*batch.values(), strict=True):
                yield dict(zip(batch, values, strict=True))
