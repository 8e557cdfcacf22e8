"""A training step and a prediction of SQuAD on a made batch, for the benchmarks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow.compat.v1 as tf

import modeling
from encoder_task import ModelOptions, make_model_fn
from optimization import OptimizerOptions
from runtime import estimators
from runtime.bf16 import configuration, conversion
from squad.head import make_v1_head


def make_batch(config: modeling.AlbertConfig, size: int, length: int) -> dict[str, np.ndarray]:
    """Makes random features without padding."""
    rng = np.random.default_rng(1)
    segments = np.zeros((size, length), np.int32)
    segments[:, length // 8 :] = 1
    start = rng.integers(length // 8, length - 5, size, dtype=np.int32)
    return {
        "input_ids": rng.integers(5, config.vocab_size, (size, length), dtype=np.int32),
        "input_mask": np.ones((size, length), np.int32),
        "segment_ids": segments,
        "start_positions": start,
        "end_positions": start + 3,
    }


def albert_for_tensorflow(
    config: modeling.AlbertConfig, batch: dict[str, np.ndarray]
) -> dict[str, Callable[[], object]]:
    """Builds this project's step and forward pass."""
    options = ModelOptions(OptimizerOptions(1e-5, 1000, 100))
    model_fn = make_model_fn(config, make_v1_head(mask_padding_in_loss=True), options)
    in_bf16 = configuration.from_environment()
    if in_bf16:
        model_fn = conversion.convert(model_fn, in_bf16)
    session = tf.Session(graph=tf.Graph())
    with session.graph.as_default():
        features = {k: tf.placeholder(tf.int32, v.shape, k) for k, v in batch.items()}
        with tf.variable_scope("", reuse=tf.AUTO_REUSE):
            train = model_fn(features, None, estimators.ModeKeys.TRAIN, {})
            answer = model_fn(features, None, estimators.ModeKeys.PREDICT, {})
        session.run(tf.global_variables_initializer())
    feed = {features[k]: v for k, v in batch.items()}
    return {
        "training step": lambda: session.run([train.train_op, train.loss], feed),
        "prediction": lambda: session.run(answer.predictions, feed),
    }
