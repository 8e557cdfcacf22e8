"""An encoder that ONNX Runtime (https://onnxruntime.ai) computes, on the CPU in float32.

In a TensorFlow graph for prediction, it takes the place of `modeling.Encoder`: one operation calls
ONNX Runtime. Heads, inputs and checkpoints stay as they are.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnxruntime
import tensorflow.compat.v1 as tf

from albert.checkpoints import transformers_names as names
from albert.devices import host
from albert.distributed import collectives
from albert.model.layers import dense
from albert.modeling import BertConfig, Encoder, EncoderConfig
from albert.onnx.graph import EPSILON, FLOAT, INPUTS, INT32, Graph, add_encoder

# The domain of the operations that ONNX Runtime adds to the standard.
_DOMAIN = "com.microsoft"


class OnnxEncoder(Encoder):
    """An encoder with its pooler in the current graph, for prediction.

    It has the states of the last layer only. Its variables are those of `Encoder`. After they are
    restored, `hook`, a hook of the session, passes them to ONNX Runtime.
    """

    def __init__(
        self,
        config: EncoderConfig,
        input_ids: tf.Tensor,
        input_mask: tf.Tensor,
        token_type_ids: tf.Tensor,
        positions: tf.Tensor | None = None,
    ):
        """Builds the graph; see `Encoder` for the arguments."""
        config.validate()
        family = "bert" if isinstance(config, BertConfig) else "albert"
        pairs = names.pairs_of(family, config.to_dict())[names.ENCODER]
        variables = {pair: tf.get_variable(pair.ours, pair.shape) for pair in pairs}
        self.output_embedding_table, *_ = variables.values()  # The words come first.
        self.hook = _PassWeights(config, variables)
        inputs = [input_ids, input_mask, token_type_ids]
        states = tf.numpy_function(self.hook.states, inputs, tf.float32)
        states.set_shape([*input_ids.shape, config.hidden_size])
        if positions is not None:
            shape = [tf.shape(input_ids)[0], tf.shape(positions)[1]]
            states = tf.gather(states, tf.broadcast_to(positions, shape), batch_dims=1)
        self.sequence_output = states
        with tf.variable_scope("bert/pooler"):
            first = dense(states[:, 0], config.hidden_size, config.initializer_range)
            self.pooled_output = tf.tanh(first)


class _PassWeights(tf.train.SessionRunHook):
    """Builds the model of ONNX Runtime from the variables of a session, and computes with it."""

    def __init__(self, config: EncoderConfig, variables: Mapping[names.VariablePair, tf.Variable]):
        self._config, self._variables = config, variables
        self._session: Any = None

    def after_create_session(self, session: tf.Session, coord: Any) -> None:
        """Takes the weights from a session, whose variables have their values."""
        values = session.run(list(self._variables.values()))
        weights = {
            pair.theirs: value.T if pair.is_transposed else value
            for pair, value in zip(self._variables, values, strict=True)
        }
        graph, width = _FusedGraph(weights), self._config.hidden_size
        states = add_encoder(graph, self._config)
        model = graph.build({"states": (states, FLOAT, ["batch", "sequence", width])})
        options = onnxruntime.SessionOptions()
        # By default, it would use all cores of the machine, even those of other workers and
        # containers.
        options.intra_op_num_threads = host.count_cores(collectives.local_size())
        self._session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )

    def states(self, *inputs: np.ndarray) -> np.ndarray:
        """Computes the last states, float32 [B, S, H]."""
        named = zip(INPUTS, inputs, strict=True)
        return self._session.run(None, {name: value.astype(np.int64) for name, value in named})[0]


class _FusedGraph(Graph):
    """A graph with operations of ONNX Runtime, each of which takes the place of several."""

    domains = (_DOMAIN,)

    def attention(self, state: str, mask: str, name: str, heads: int) -> str:
        """Makes query, key and value with one product; see `Graph.attention`."""

        def joined(kind: str) -> np.ndarray:
            parts = (self.weights[f"{name}.{part}.{kind}"] for part in ("query", "key", "value"))
            return np.concatenate([part.T for part in parts], axis=-1)

        # Layers that share weights share the joined ones, too.
        weights = [
            self.initializer(f"{name}.{kind}", functools.partial(joined, kind))
            for kind in ("weight", "bias")
        ]
        mask = self.add_once("Cast", mask, to=INT32)
        return self.add("Attention", state, *weights, mask, domain=_DOMAIN, num_heads=heads)

    def dense_activation(self, x: str, name: str, activation: str | Callable | None) -> str:
        if activation != "gelu":
            return super().dense_activation(x, name, activation)
        product = self.add("MatMul", x, self.weight(f"{name}.weight"))
        return self.add("FastGelu", product, self.weight(f"{name}.bias"), domain=_DOMAIN)

    def dense_residual_norm(self, x: str, name: str, residual: str, norm: str) -> str:
        product = self.add("MatMul", x, self.weight(f"{name}.weight"))
        weights = [*self.norm_weights(norm), self.weight(f"{name}.bias")]
        return self.add(
            "SkipLayerNormalization", product, residual, *weights, domain=_DOMAIN, epsilon=EPSILON
        )
