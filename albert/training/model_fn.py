"""The `model_fn` of an estimator: a model and, in training, an optimizer."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow.compat.v1 as tf

from albert.checkpoints.initialization import initialize_from_checkpoint
from albert.core import estimators
from albert.modeling import EncoderConfig
from albert.optimization import build_train_step
from albert.prediction.model import Head, ModelOptions, build_output, make_predict_fn


def make_model_fn(config: EncoderConfig, head: Head, options: ModelOptions) -> Callable:
    """Returns the `model_fn` of an `Estimator`: encoder, head and, in training, optimizer.

    In training, the `EstimatorSpec` carries a `TrainStep`, see `estimators.graph_parts`.
    """
    predict_fn = make_predict_fn(config, head, options)

    def model_fn(features, labels, mode, params):
        if mode == estimators.ModeKeys.PREDICT:
            return predict_fn(features)
        if mode != estimators.ModeKeys.TRAIN:
            raise ValueError(f"Only TRAIN and PREDICT modes are supported: {mode}")
        output = build_output(config, head, options, features)
        if checkpoint := options.init_checkpoint:
            variables = tf.trainable_variables()
            chosen = options.num_groups, options.new_head, options.labels
            initialize_from_checkpoint(variables, checkpoint, *chosen).log()
        assert options.optimizer is not None, "training needs an optimizer"
        num_tokens = tf.reduce_sum(features["input_mask"])
        step = build_train_step(output.loss, options.optimizer, num_tokens=num_tokens)
        carrier, loss = estimators.GraphParts(step), output.loss
        if step.scaling:
            # An estimator ends the training at a NaN, but a step with a NaN may be skipped.
            loss = tf.where(tf.math.is_nan(loss), tf.zeros_like(loss), loss)
        return estimators.EstimatorSpec(mode, loss=loss, train_op=step.op, training_hooks=[carrier])

    return model_fn
