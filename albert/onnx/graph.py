"""Graphs in ONNX (https://onnx.ai): an encoder with its weights.

Letters in shape comments: B batch, S sequence length, H hidden size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from albert.checkpoints.transformers_names import block_names
from albert.core.errors import UserError
from albert.model.config import BertConfig, EncoderConfig

# The first version with GELU; ONNX Runtime supports it since version 1.17.
OPSET = 20
# The names of `transformers` and Optimum; int64 [B, S].
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
FLOAT = TensorProto.FLOAT
EPSILON = 1e-12
# Of a protocol buffer, less what the nodes may take.
MOST_BYTES = 2**31 - 2**20
# As in `albert.model.layers`.
_MASKED_SCORE = -10000.0
# A tensor, its type and its shape.
Output = tuple[str, int, list[str | int]]


class Graph:
    """A graph under construction; its methods add nodes and return the names of their outputs."""

    def __init__(self, weights: Mapping[str, np.ndarray]):
        """Takes weights, named as in `transformers`."""
        self.weights = weights
        self.nodes: list[onnx.NodeProto] = []
        self.used_weights: dict[str, np.ndarray] = {}
        self._constants: dict[str, np.ndarray] = {}
        self._shared: dict[str, list[str]] = {}

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Adds an operation with one output."""
        return self.add_all(kind, 1, *inputs, **attributes)[0]

    def add_all(self, kind: str, count: int, *inputs: str, **attributes: Any) -> list[str]:
        """Adds an operation with several outputs; one with the same arguments is shared."""
        key = f"{kind} {count} {inputs} {attributes}"
        if key in self._shared:
            return self._shared[key]
        # `quantization.search` needs the name of the weights at the end of that of a product.
        weights = [f"/{name}" for name in inputs if name in self.weights]
        name = "".join([f"{kind}_{len(self.nodes)}", *weights])
        outputs = [f"{name}:{output}" for output in range(count)]
        self.nodes.append(helper.make_node(kind, inputs, outputs, name, **attributes))
        self._shared[key] = outputs
        return outputs

    def constant(self, value: Any, dtype: type = np.int64) -> str:
        """Adds a constant, shared by all nodes that use an equal one."""
        array: np.ndarray = np.array(value, dtype)
        name = f"{array.dtype}_{array.tolist()}"
        self._constants[name] = array
        return name

    def weight(self, name: str) -> str:
        """Adds a weight; a matrix of a dense layer becomes [inputs, outputs]."""
        value = self.weights[name]
        is_table = "embeddings.weight" in name
        self.used_weights[name] = value if is_table else value.T
        return name

    def dense(self, x: str, name: str) -> str:
        """Adds a dense layer."""
        product = self.add("MatMul", x, self.weight(f"{name}.weight"))
        return self.add("Add", product, self.weight(f"{name}.bias"))

    def norm(self, x: str, name: str) -> str:
        """Adds a layer normalization over the last axis."""
        weights = [self.weight(f"{name}.{part}") for part in ("weight", "bias")]
        return self.add("LayerNormalization", x, *weights, axis=-1, epsilon=EPSILON)

    def attention(self, state: str, mask: str, name: str, heads: int) -> str:
        """Adds self-attention on states [B, S, H], without the dense layer for its output.

        The mask [B, S] has 1 for tokens and 0 for padding; `name` is the prefix of the weights.
        """
        hidden = len(self.weights[f"{name}.query.bias"])

        def by_head(part: str, order: Sequence[int]) -> str:
            x = self.dense(state, f"{name}.{part}")
            # A 0 keeps the size of the input: batch and length.
            x = self.add("Reshape", x, self.constant([0, 0, heads, hidden // heads]))
            return self.add("Transpose", x, perm=order)

        query, value = (by_head(part, [0, 2, 1, 3]) for part in ("query", "value"))
        query = self.add("Mul", query, self.constant(1 / math.sqrt(hidden // heads), np.float32))
        scores = self.add("MatMul", query, by_head("key", [0, 2, 3, 1]))
        # The bias of the scores, [B, 1, 1, S], is the same in all layers.
        mask = self.add("Unsqueeze", mask, self.constant([1, 2]))
        padding = self.add("Cast", self.add("Sub", self.constant(1), mask), to=FLOAT)
        bias = self.add("Mul", padding, self.constant(_MASKED_SCORE, np.float32))
        scores = self.add("Add", scores, bias)
        context = self.add("MatMul", self.add("Softmax", scores, axis=-1), value)
        context = self.add("Transpose", context, perm=[0, 2, 1, 3])
        return self.add("Reshape", context, self.constant([0, 0, hidden]))

    def dense_activation(self, x: str, name: str, activation: str | Callable | None) -> str:
        """Adds a dense layer and activation; raises a `UserError` if ONNX lacks the activation."""
        x = self.dense(x, name)
        act = activation.lower() if isinstance(activation, str) else activation
        if act in ("gelu", "gelu_erf"):
            return self.add("Gelu", x, approximate="tanh" if act == "gelu" else "none")
        kinds = {"relu": "Relu", "tanh": "Tanh", "linear": "", "": "", None: ""}
        if act not in kinds:
            raise UserError(f"hidden_act {act!r} cannot be written to ONNX")
        return self.add(kinds[act], x) if kinds[act] else x

    def dense_residual_norm(self, x: str, name: str, residual: str, norm: str) -> str:
        """Adds a dense layer, a residual and a layer normalization."""
        return self.norm(self.add("Add", self.dense(x, name), residual), norm)

    def build(
        self, outputs: Mapping[str, Output], weights_as_inputs: bool = False
    ) -> onnx.ModelProto:
        """Returns a model with its weights, or inputs for them; raises a `UserError` above 2 GB."""
        results = []
        for name, (tensor, kind, shape) in outputs.items():
            self.nodes.append(helper.make_node("Identity", [tensor], [name]))
            results.append(helper.make_tensor_value_info(name, kind, shape))
        inputs = [
            helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "sequence"])
            for name in INPUTS
        ]
        more = self.used_weights if weights_as_inputs else {}
        inputs += [helper.make_tensor_value_info(name, FLOAT, more[name].shape) for name in more]
        arrays = self._constants if weights_as_inputs else {**self._constants, **self.used_weights}
        if sum(array.nbytes for array in arrays.values()) >= MOST_BYTES:
            raise UserError("the weights have more than the 2 GB that fit in a model of ONNX")
        constants = [
            numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
            for name, array in arrays.items()
        ]
        built = helper.make_graph(self.nodes, "albert", inputs, results, constants)
        standard = helper.make_opsetid("", OPSET)
        return helper.make_model(
            built,
            producer_name="albert-tf",
            opset_imports=[standard],
            # The version of the format that came with the operators.
            ir_version=helper.find_min_ir_version_for([standard]),
        )


def save_model(model: onnx.ModelProto, path: str) -> None:
    """Checks a model against the standard, and writes it to a file."""
    onnx.checker.check_model(model)
    onnx.save_model(model, path)


def add_encoder(graph: Graph, config: EncoderConfig) -> str:
    """Adds embeddings and layers; returns the last states [B, S, H]; see `dense_activation`."""
    family = "bert" if isinstance(config, BertConfig) else "albert"
    ids, mask, segments = INPUTS
    length = graph.add("Shape", ids, start=1, end=2)
    prefix = f"{family}.embeddings"
    tables = [graph.weight(f"{prefix}.{n}_embeddings.weight") for n in ("word", "token_type")]
    summands = [graph.add("Gather", t, i) for t, i in zip(tables, (ids, segments), strict=True)]
    positions = graph.weight(f"{prefix}.position_embeddings.weight")
    start, axis = graph.constant([0]), graph.constant([0])
    summands.append(graph.add("Slice", positions, start, length, axis))
    state = graph.add("Add", graph.add("Add", *summands[:2]), summands[2])
    state = graph.norm(state, f"{prefix}.LayerNorm")
    if config.embedding_size != config.hidden_size:
        state = graph.dense(state, f"{family}.encoder.embedding_hidden_mapping_in")
    for layer in range(config.num_hidden_layers):
        group = layer * config.num_hidden_groups // config.num_hidden_layers
        for inner in range(config.inner_group_num):
            _, names = block_names(family, group, inner)
            context = graph.attention(state, mask, names.attention, config.num_attention_heads)
            attention = graph.dense_residual_norm(context, names.output, state, names.output_norm)
            wide = graph.dense_activation(attention, names.wide, config.hidden_act)
            state = graph.dense_residual_norm(wide, names.narrow, attention, names.norm)
    return state
