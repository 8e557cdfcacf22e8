"""A training step of SQuAD on a random batch, for the benchmarks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow.compat.v1 as tf

from albert import modeling
from albert.core import estimators


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


def training_step(
    model_fn: Callable, batch: dict[str, np.ndarray]
) -> tuple[tf.Operation, dict[tf.Tensor, np.ndarray]]:
    """Builds a training step in the current graph; returns it, and what to feed."""
    features = {name: tf.placeholder(tf.int32, v.shape, name) for name, v in batch.items()}
    step = model_fn(features, None, estimators.ModeKeys.TRAIN, {}).train_op
    return step, {features[name]: value for name, value in batch.items()}
