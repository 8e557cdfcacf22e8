"""Steps of SQuAD in a session, for the benchmarks."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from albert import modeling
from albert.core import estimators
from albert.devices import device
from albert.precision import configuration, conversion
from albert.prediction.model import ModelOptions
from albert.tasks.squad.head import make_v1_head
from albert.training.model_fn import make_model_fn

TRAIN, PREDICT = estimators.ModeKeys.TRAIN, estimators.ModeKeys.PREDICT
Batch = Mapping[str, np.ndarray]


def make_batch(config: modeling.EncoderConfig, size: int, length: int) -> Batch:
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


def make_step(
    config: modeling.EncoderConfig,
    batch: Batch,
    options: ModelOptions,
    mode: str = TRAIN,
    any_shape: bool = False,
) -> tuple[Any, dict[str, tf.Tensor]]:
    """Builds a step in the current graph; returns its operations, and its placeholders.

    They have the shapes of the batch, or any. TF_BF16_CONVERSION converts it as in the programs.
    """
    model_fn = make_model_fn(config, make_v1_head(mask_padding_in_loss=True), options)
    model_fn = conversion.convert(model_fn, configuration.chosen(), device.kind())
    shapes = {name: [None] * v.ndim if any_shape else v.shape for name, v in batch.items()}
    features = {name: tf.placeholder(batch[name].dtype, shapes[name], name) for name in batch}
    return model_fn(features, None, mode, {}), features


def session_of(
    config: modeling.EncoderConfig,
    batch: Batch,
    options: ModelOptions,
    mode: str = TRAIN,
    settings: tf.ConfigProto | None = None,
    any_shape: bool = False,
) -> tuple[tf.Session, Callable]:
    """Returns a session with random weights, and a function that makes a step with a batch, by
    default this one: it returns the loss of a training step, or all predictions."""
    session = tf.Session(graph=tf.Graph(), config=settings or device.session_config())
    with session.graph.as_default():
        tf.set_random_seed(1)
        spec, inputs = make_step(config, batch, options, mode, any_shape)
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
    fetched = [spec.loss, spec.train_op] if mode == TRAIN else list(spec.predictions.values())

    def step(values: Batch = batch) -> float | list[np.ndarray]:
        results = session.run(fetched, {inputs[name]: values[name] for name in inputs})
        return float(results[0]) if mode == TRAIN else results

    return session, step
