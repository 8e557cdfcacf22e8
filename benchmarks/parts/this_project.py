"""This project as a program of `benchmarks.parts.program`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable

import numpy as np
import tensorflow as tf2
import tensorflow.compat.v1 as tf

from albert.core import estimators
from albert.devices import device, memory_use
from albert.optimization import OptimizerOptions
from albert.precision import configuration, conversion
from albert.prediction.model import ModelOptions
from albert.prediction.session import optimized_twice
from albert.training.model_fn import make_model_fn
from benchmarks.parts.program import BEST, DECAY, EPSILON, RATE, Batch, Functions, host_memory
from benchmarks.parts.weights import config_of, head_of


def functions(flags: argparse.Namespace) -> Functions:
    """Returns the functions of this project."""
    choose_device(flags)
    is_training = flags.work == "training"
    optimizer = OptimizerOptions(
        RATE, 10**9, optimizer="radam", epsilon=EPSILON, weight_decay=DECAY
    )
    options = ModelOptions(optimizer, remove_padding=True)
    model_fn = make_model_fn(config_of(flags), head_of(flags), options)
    if flags.dtype == "bfloat16":
        os.environ.setdefault("TF_BF16_CONVERSION", "1")
        model_fn = conversion.convert(model_fn, configuration.chosen(), device.kind())
    config = device.session_config()
    config = config if is_training else optimized_twice(config)
    session = tf.Session(graph=tf.Graph(), config=config)
    with session.graph.as_default():
        records = np.load(flags.batches)
        inputs = {
            name: tf.placeholder(records[name].dtype, [None] * records[name].ndim, name)
            for name in records.files
            if name != "order"
        }
        modes = estimators.ModeKeys
        spec = model_fn(inputs, None, modes.TRAIN if is_training else modes.PREDICT, {})
        fetched = [spec.loss, spec.train_op] if is_training else list(spec.predictions.values())
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        checkpoint = os.path.join(flags.model, BEST)
        tf.train.Saver(tf.trainable_variables()).restore(session, checkpoint)

    def step(batch: Batch) -> float:
        values = session.run(fetched, {inputs[name]: values for name, values in batch.items()})
        return float(values[0]) if is_training else 0.0

    def peak_memory() -> int:
        of_device = memory_use.device_memory()
        return of_device.peak if of_device else host_memory()

    return step, peak_memory


def matrix_product(flags: argparse.Namespace) -> Callable[[], object]:
    """Returns a function that multiplies two large matrices."""
    choose_device(flags)
    session = tf.Session(graph=tf.Graph(), config=device.session_config())
    with session.graph.as_default():
        shape, ones = [flags.matrix_size] * 2, tf.ones_initializer()
        dtype = tf.as_dtype(flags.dtype.replace("tf32", "float32"))
        a, b = (tf.get_variable(name, shape, dtype, ones, use_resource=True) for name in "ab")
        product = tf.matmul(a, b).op
        session.run(tf.global_variables_initializer())
    return lambda: session.run(product)


def choose_device(flags: argparse.Namespace) -> None:
    """Makes this process ready for a device, and for a type of products."""
    tf.logging.set_verbosity(tf.logging.ERROR)
    device.choose(flags.device)
    device.prepare()
    tf2.config.experimental.enable_tensor_float_32_execution(flags.dtype == "tf32")
