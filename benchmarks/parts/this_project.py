"""This project as a program of `benchmarks.parts.program`, and its random weights."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import tensorflow as tf2
import tensorflow.compat.v1 as tf

from albert.convert.convert import to_transformers
from albert.convert.settings import ConvertSettings
from albert.devices import device, memory_use
from albert.modeling import BertConfig, EncoderConfig, read_config
from albert.optimization import OptimizerOptions
from albert.precision import configuration, conversion
from albert.prediction import session as sessions
from albert.prediction.model import ModelOptions, make_predict_fn
from albert.tasks.squad.head import make_v1_head
from benchmarks.parts import program, step
from benchmarks.parts.flags import Flags
from benchmarks.parts.harness import seconds_of
from benchmarks.parts.models import write_random_weights, write_tokenizer, write_vocabulary


def write_models(folder: str, config_file: str, onnx: Sequence[str]) -> None:
    """Writes random weights, for this project, `transformers` and, if named, ONNX Runtime."""
    os.makedirs(folder)
    config = with_dropout(config_file)
    write_random_weights(folder, config, make_v1_head(mask_padding_in_loss=True))
    # It is not read, but a model without a tokenizer cannot be converted.
    flag, write = "spm_model_file", write_tokenizer
    if isinstance(config, BertConfig):
        flag, write = "vocab_file", write_vocabulary
    tokenizer = os.path.join(folder, "tokenizer")
    write(tokenizer, config.vocab_size)
    options = ConvertSettings(albert_config_file=config_file, **{flag: tokenizer})
    checkpoint = os.path.join(folder, program.BEST)
    to_transformers(checkpoint, os.path.join(folder, program.TRANSFORMERS), options)
    if onnx:
        from albert.convert.onnx_graph import to_onnx

        to_onnx(checkpoint, os.path.join(folder, program.ONNX), options)
    if program.INT8 in onnx:
        from benchmarks.parts.onnx_runtime import write_int8

        write_int8(folder)


def with_dropout(config_file: str, probability: float = 0.0) -> EncoderConfig:
    """Reads a configuration, and sets its probabilities of dropout."""
    config = read_config(config_file)
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = probability
    return config


def load(settings: Flags) -> program.Functions:
    """Returns the functions of this project."""
    choose_device(settings)
    model = with_dropout(settings.config, settings.dropout)
    checkpoint = os.path.join(settings.model, program.BEST)
    make = training_of if settings.work == "training" else prediction_of
    return make(settings, model, checkpoint), peak_memory_of_device


def training_of(settings: Flags, model: EncoderConfig, checkpoint: str) -> program.Run:
    """Returns a function that makes steps of training."""
    numbers = {"epsilon": program.EPSILON, "weight_decay": program.DECAY}
    optimizer = OptimizerOptions(program.RATE, 10**9, optimizer="adamw_corrected", **numbers)
    options = ModelOptions(optimizer, remove_padding=True)
    records = program.read_features(settings)
    records = {name: values[:1].copy() for name, values in records.items() if name != "order"}
    session, run = step.session_of(model, records, options, any_shape=True)
    with session.graph.as_default():
        tf.train.Saver(tf.trainable_variables()).restore(session, checkpoint)
    return lambda batches: map(run, batches)


def prediction_of(settings: Flags, model: EncoderConfig, checkpoint: str) -> program.Run:
    """Returns a function that predicts batches, with the session of the programs."""
    head = make_v1_head(mask_padding_in_loss=True)
    model_fn = make_predict_fn(model, head, ModelOptions(remove_padding=True))
    model_fn = conversion.convert(model_fn, configuration.chosen(), device.kind())
    specs = {name: tf.TensorSpec([None, None], tf.int32) for name in program.SEQUENCES}
    inputs = sessions.placeholders(specs)
    session = sessions.PredictSession(model_fn, inputs, device.session_config())
    session.load(checkpoint)

    def run(batches: Iterable[program.Batch]) -> Iterator[list[np.ndarray]]:
        values = ({name: batch[name] for name in specs} for batch in batches)
        return (list(predictions.values()) for predictions, _ in session.run_all(values))

    return run


def peak_memory_of_device() -> int:
    """Returns the largest number of bytes that were in use on the GPU, or otherwise the host."""
    gigabytes = memory_use.curves()
    peak = gigabytes.get("peak_device_memory_gb", gigabytes["peak_host_memory_gb"])
    return round(peak * 1e9)


def product_turn(settings: Flags) -> Callable[[int], dict[str, float]]:
    """Returns a function that measures a turn of a large matrix product: the operations per second,
    the best of three."""
    choose_device(settings)
    session = tf.Session(graph=tf.Graph(), config=device.session_config())
    with session.graph.as_default():
        shape, ones = [settings.matrix_size] * 2, tf.ones_initializer()
        dtype = tf.as_dtype(settings.dtype.replace("tf32", "float32"))
        a, b = (tf.get_variable(name, shape, dtype, ones, use_resource=True) for name in "ab")
        product = tf.matmul(a, b).op
        session.run(tf.global_variables_initializer())

    def turn(_: int) -> dict[str, float]:
        seconds = min(seconds_of(lambda: session.run(product)) for _ in range(3))
        return {"rate": 2.0 * settings.matrix_size**3 / seconds}

    return turn


def choose_device(settings: Flags) -> None:
    """Makes this process ready for a device, and for a type of products."""
    device.choose(settings.device)
    device.prepare()
    tf2.config.experimental.enable_tensor_float_32_execution(settings.dtype == "tf32")
    if settings.dtype == "bfloat16":
        os.environ.setdefault(configuration.VARIABLE, "1")
    else:
        os.environ.pop(configuration.VARIABLE, None)
