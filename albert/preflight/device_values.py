"""Computations whose results `albert compare-devices` compares between devices."""

from __future__ import annotations

import numpy as np
import tensorflow.compat.v1 as tf

from albert.core import estimators
from albert.devices import device, ops
from albert.modeling import AlbertConfig
from albert.optimization import OptimizerOptions
from albert.precision import configuration, conversion
from albert.prediction.model import ModelOptions
from albert.records.sequences import SEQUENCE_KEYS
from albert.tasks.squad.features import ANSWER_KEYS
from albert.tasks.squad.head import make_v1_head
from albert.training.model_fn import make_model_fn

_SHAPE = (8, 64, 256)
_RATE = 0.25
_STEPS = 5
_CONFIG = AlbertConfig(
    vocab_size=500,
    embedding_size=64,
    hidden_size=_SHAPE[2],
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=1024,
    max_position_embeddings=_SHAPE[1],
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)


def compute_values(kind: str) -> dict[str, np.ndarray]:
    """Computes the values of a device in this process, by name; see --device."""
    device.choose(kind)
    device.prepare()
    return {**operations(), **dropout(), **training()}


def operations() -> dict[str, np.ndarray]:
    """Returns layer normalization and GELU of random numbers, and their gradients."""
    rng = np.random.default_rng(1)
    x, weight = rng.normal(size=(2, *_SHAPE)).astype(np.float32)
    gamma, beta = rng.normal(size=(2, _SHAPE[2])).astype(np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        inputs = tf.constant(3 * x), tf.constant(gamma), tf.constant(beta)
        normalized, activated = ops.layer_norm(*inputs, 1e-12), ops.gelu(inputs[0])
        fetches = {
            "layer norm": normalized,
            "GELU": activated,
            "GELU's gradient": tf.gradients(activated * weight, inputs[0])[0],
        }
        for name, gradient in zip(
            ("input", "gamma", "beta"), tf.gradients(normalized * weight, inputs), strict=True
        ):
            fetches[f"layer norm's gradient, {name}"] = gradient
        return session.run(fetches)


def dropout() -> dict[str, np.ndarray]:
    """Returns the deterministic statistics of dropout: keep rate, scale and gradient."""
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1)
        x = tf.ones([1000, 1000])
        y = ops.dropout(x, _RATE)
        gradient = tf.gradients(y, x)[0]
        session.run(tf.global_variables_initializer())
        kept, gradient = session.run([y, gradient])
    return {
        # This is the mean of a million draws, so its error is below 0.002.
        "dropout, share that stays": np.round(np.mean(kept > 0, keepdims=True), 2),
        "dropout, scale": np.max(kept, keepdims=True)[0],
        "dropout's gradient": np.max(np.abs(gradient - kept), keepdims=True)[0] + 1,
    }


def training() -> dict[str, np.ndarray]:
    """Returns the losses of some training steps without dropout, and the weights after them."""
    rng = np.random.default_rng(2)
    size, length, _ = _SHAPE
    batch = {name: np.ones([size, length], np.int32) for name in SEQUENCE_KEYS}
    batch["input_ids"] = rng.integers(5, _CONFIG.vocab_size, [size, length], np.int32)
    batch |= {name: rng.integers(1, length, [size], np.int32) for name in ANSWER_KEYS}
    options = ModelOptions(OptimizerOptions(learning_rate=1e-3, num_train_steps=100))
    model_fn = make_model_fn(_CONFIG, make_v1_head(mask_padding_in_loss=False), options)
    model_fn = conversion.convert(model_fn, configuration.chosen(), device.kind())
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(3)
        tf.train.get_or_create_global_step()
        spec = model_fn(
            {name: tf.constant(array) for name, array in batch.items()},
            None,
            estimators.ModeKeys.TRAIN,
            {},
        )
        variables = tf.trainable_variables()
        session.run(tf.global_variables_initializer())
        # Devices draw different random numbers, so start from the same weights.
        for variable in sorted(variables, key=lambda v: v.name):
            if variable.shape.ndims > 1:
                variable.load(0.05 * rng.normal(size=variable.shape).astype(np.float32), session)
        losses = [session.run([spec.loss, spec.train_op])[0] for _ in range(_STEPS)]
        weights = np.concatenate([value.ravel() for value in session.run(variables)])
    return {"losses of a training": np.array(losses), "weights after it": weights}


def relative_differences(
    expected: dict[str, np.ndarray], values: dict[str, np.ndarray]
) -> dict[str, float]:
    """Returns the greatest difference of each array, relative to the array's greatest value."""
    return {
        name: float(np.max(np.abs(array - values[name])) / np.max(np.abs(array)))
        for name, array in expected.items()
    }
