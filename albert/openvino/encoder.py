"""An encoder that OpenVINO (https://docs.openvino.ai) computes, on the CPU.

In a TensorFlow graph for prediction, it takes the place of `modeling.Encoder`: one operation calls
OpenVINO. Heads, inputs and checkpoints stay as they are.
"""

from __future__ import annotations

import contextlib
import functools
import os
import queue
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import openvino
import tensorflow.compat.v1 as tf
from openvino import Core, InferRequest, Model, op, save_model

from albert.checkpoints import transformers_names as names
from albert.checkpoints.checkpoint_files import content_of_checkpoint, resolve_checkpoint
from albert.core.errors import UserError
from albert.core.log import LOG
from albert.core.text import one_line
from albert.devices import device, host
from albert.distributed import collectives
from albert.model.layers import dense
from albert.modeling import BertConfig, Encoder, EncoderConfig
from albert.onnx.graph import FLOAT, INPUTS, Graph, add_encoder

# Where a quantized encoder has the digest of the weights that it was made from.
_WEIGHTS = ["albert-tf", "weights"]
# OpenVINO's names of the types of products.
_TYPES = {"float32": "f32", "bfloat16": "bf16"}


class OpenVinoEncoder(Encoder):
    """An encoder with its pooler in the current graph, for prediction.

    It has the states of the last layer only. Its variables are those of `Encoder`. After they are
    restored, `hook`, a hook of the session, passes them to OpenVINO.
    """

    def __init__(
        self,
        config: EncoderConfig,
        input_ids: tf.Tensor,
        input_mask: tf.Tensor,
        token_type_ids: tf.Tensor,
        positions: tf.Tensor | None = None,
        precision: str = "float32",
        quantized: str = "",
        at_once: int = 1,
    ):
        """Builds the graph; see `Encoder` for the arguments.

        `precision` is "float32" or "bfloat16", the type of the products. `quantized` is the path of
        an encoder with products in int8, which does not need the variables. `at_once` batches are
        computed at a time, each on its part of the cores.
        """
        config.validate()
        family = "bert" if isinstance(config, BertConfig) else "albert"
        pairs = names.pairs_of(family, config.to_dict())[names.ENCODER]
        variables = {pair: tf.get_variable(pair.ours, pair.shape) for pair in pairs}
        self.output_embedding_table, *_ = variables.values()  # The words come first.
        self.hook = _PassWeights(config, variables, precision, quantized, at_once)
        inputs = [input_ids, input_mask, token_type_ids]
        states = tf.numpy_function(self.hook.states, inputs, tf.float32)
        states.set_shape([*input_ids.shape, config.hidden_size])
        if positions is not None:
            shape = [tf.shape(input_ids)[0], tf.shape(positions)[1]]
            states = tf.gather(states, tf.broadcast_to(positions, shape), batch_dims=1)
        self.sequence_output = states
        self.all_encoder_layers = [states]
        with tf.variable_scope("bert/pooler"):
            first = dense(states[:, 0], config.hidden_size, config.initializer_range)
            self.pooled_output = tf.tanh(first)


# Makes OpenVINO's table of types. If two threads need it for the first time at once, one waits with
# the GIL for the table, and the other one, which makes it, for the GIL.
_ = openvino.Tensor(np.zeros(1, np.float32)).data


@functools.cache
def _core() -> Core:
    """Returns the one OpenVINO of this process."""
    # It must never go: with the last one, another thread would free the memory on which the main
    # thread handles signals.
    return Core()


class Recording:
    """The last encoder that was built from variables, and the inputs of all batches."""

    def __init__(self):
        self.model: Model | None = None
        self.batches: list[dict[str, np.ndarray]] = []


_recordings: list[Recording] = []


@contextlib.contextmanager
def recording() -> Iterator[Recording]:
    """Records what encoders of this process compute in the `with` block."""
    _recordings.append(Recording())
    try:
        yield _recordings[-1]
    finally:
        _recordings.pop()


def read_quantized(path: str) -> Model:
    """Reads an encoder in int8; raises a `UserError` if it does not belong to its model."""
    try:
        model = _core().read_model(path)
        if model.get_rt_info(_WEIGHTS).value == _weights_beside(path):
            return model
    except RuntimeError as e:
        raise UserError(
            f"{path} cannot be read by OpenVINO {openvino.__version__}: quantize the model again"
        ) from e
    raise UserError(f"{path} is not the encoder of the weights in its folder: quantize them again")


def write_model(model: Model, path: str) -> None:
    """Writes an encoder; `path` ends with ".xml", and the weights go to a file next to it."""
    model.set_rt_info(_weights_beside(path), _WEIGHTS)
    save_model(model, path, compress_to_fp16=False)


def _weights_beside(path: str) -> str:
    """Returns a digest of the checkpoint of the model whose encoder a file in its assets is."""
    folder = os.path.dirname(os.path.dirname(path))
    return content_of_checkpoint(resolve_checkpoint(folder))


def compile_model(model: Model, precision: str, at_once: int = 1) -> list[InferRequest]:
    """Compiles an encoder for this process's cores; returns requests that compute at a time.

    For `precision` and `at_once`, see `OpenVinoEncoder`.
    """
    cores = host.count_cores(collectives.local_size())
    streams = min(at_once, cores)
    options = {
        "INFERENCE_PRECISION_HINT": _TYPES[precision],
        "PERFORMANCE_HINT": "LATENCY",
        # By default, it would use the cores of other workers, too, and bind threads to them.
        "INFERENCE_NUM_THREADS": cores,
        "NUM_STREAMS": streams,
        "ENABLE_CPU_PINNING": False,
    }
    compiled = _core().compile_model(model, "CPU", options)
    return [compiled.create_infer_request() for _ in range(streams)]


class _TensorFlowRequest:
    """Computes states as OpenVINO's request does, with TensorFlow in a separate session."""

    def __init__(self, config: EncoderConfig, values: Mapping[names.VariablePair, np.ndarray]):
        with tf.Graph().as_default() as graph:
            self._inputs = {name: tf.placeholder(tf.int32, [None, None]) for name in INPUTS}
            self._states = Encoder(config, False, *self._inputs.values()).get_sequence_output()
            variables = {variable.op.name: variable for variable in tf.global_variables()}
            self._session = tf.Session(graph=graph, config=device.session_config())
            for pair, value in values.items():
                variables[pair.ours].load(value, self._session)

    def infer(self, values: Mapping[str, np.ndarray], share_inputs: bool) -> list[np.ndarray]:
        feed = {tensor: values[name] for name, tensor in self._inputs.items()}
        return [self._session.run(self._states, feed)]


class _PassWeights(tf.train.SessionRunHook):
    """Compiles a model of OpenVINO with the variables of a session, and computes with it."""

    def __init__(
        self,
        config: EncoderConfig,
        variables: Mapping[names.VariablePair, tf.Variable],
        precision: str,
        quantized: str,
        at_once: int,
    ):
        self._config, self._variables, self._quantized = config, variables, quantized
        self._options = precision, at_once

    def after_create_session(self, session: tf.Session, coord: Any) -> None:
        """Takes the weights from a session, whose variables have their values."""
        # Those that compute nothing now.
        self._requests = queue.SimpleQueue[Any]()
        for request in self._requests_of(session):
            self._requests.put(request)

    def _requests_of(self, session: tf.Session) -> Sequence[Any]:
        if self._quantized:
            return compile_model(read_quantized(self._quantized), *self._options)
        values = session.run(self._variables)
        try:
            return compile_model(self._model_of(values), *self._options)
        # Each version of OpenVINO fails in its own way, and a training must continue.
        except Exception as e:
            LOG.warning(
                "OpenVINO %s cannot compute the encoder (%s): TensorFlow computes it in float32",
                openvino.__version__,
                one_line(str(e)),
            )
            return [_TensorFlowRequest(self._config, values)]

    def _model_of(self, values: Mapping[names.VariablePair, np.ndarray]) -> Model:
        weights = {
            pair.theirs: value.T if pair.is_transposed else value for pair, value in values.items()
        }
        graph, width = Graph(weights), self._config.hidden_size
        states = add_encoder(graph, self._config)
        shape: list[str | int] = ["batch", "sequence", width]
        built = graph.build({"states": (states, FLOAT, shape)}, weights_as_inputs=True)
        read = _core().read_model(built.SerializeToString())
        # The constants share the memory of the weights, which the built model would copy.
        for name, value in graph.used_weights.items():
            parameter = read.input(name).get_node()
            constant = op.Constant(np.ascontiguousarray(value), shared_memory=True)
            constant.set_friendly_name(name)
            parameter.output(0).replace(constant.output(0))
            read.remove_parameter(parameter)
        for recorded in _recordings:
            recorded.model = read
        return read

    def states(self, *inputs: np.ndarray) -> np.ndarray:
        """Computes the last states, float32 [B, S, H]."""
        named = zip(INPUTS, inputs, strict=True)
        values = {name: value.astype(np.int64) for name, value in named}
        for recorded in _recordings:
            recorded.batches.append(values)
        request = self._requests.get()
        try:
            return request.infer(values, share_inputs=True)[0]
        finally:
            self._requests.put(request)
