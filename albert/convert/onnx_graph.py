"""A model in ONNX (https://onnx.ai): the graph of an encoder and its head, with their weights.

Letters in shape comments: B batch, S sequence length, H hidden size, K starts, M ends per start.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from albert.checkpoints import transformers_names as names
from albert.convert.source import Source, Variables
from albert.core.errors import UserError

try:
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError as e:
    raise UserError(
        "the package onnx is missing: run `pip install onnx`, or `pip install "
        "'albert-tensorflow[onnx]'`"
    ) from e

# The first version with GELU; ONNX Runtime supports it since version 1.17.
OPSET = 20
# The names of `transformers` and Optimum; int64 [B, S].
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
_EPSILON = 1e-12
# Of a protocol buffer, less what the nodes may take.
_LARGEST = 2**31 - 2**20
# As in `albert.model.layers` and `albert.tasks.squad.head`.
_MASKED_SCORE, _OUTSIDE_SCORE = -10000.0, -1e30
_BEST = 5  # starts and ends per start of SQuAD 2.0, the defaults of the reference


class _Graph:
    """A graph under construction; its methods add nodes and return the names of their outputs."""

    def __init__(self, weights: Mapping[str, np.ndarray]):
        """Starts an empty graph; `weights` have the names and shapes of `transformers`."""
        self._weights = weights
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: dict[str, onnx.TensorProto] = {}

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Adds an operation with one output."""
        return self.add_all(kind, 1, *inputs, **attributes)[0]

    def add_all(self, kind: str, count: int, *inputs: str, **attributes: Any) -> list[str]:
        """Adds an operation with several outputs."""
        number = len(self.nodes)
        outputs = [f"{kind}_{number}:{output}" for output in range(count)]
        self.nodes.append(helper.make_node(kind, inputs, outputs, f"{kind}_{number}", **attributes))
        return outputs

    def constant(self, value: Any, dtype: type = np.int64) -> str:
        """Adds a constant, shared by all nodes that use an equal one."""
        array: np.ndarray = np.array(value, dtype)
        return self._initializer(f"{array.dtype}_{array.tolist()}", array)

    def weight(self, name: str) -> str:
        """Adds a weight once; a matrix of a dense layer becomes [inputs, outputs]."""
        value = self._weights[name]
        is_table = "embeddings.weight" in name
        return self._initializer(name, value if is_table else value.T)

    def _initializer(self, name: str, value: np.ndarray) -> str:
        if name not in self.initializers:
            proto = numpy_helper.from_array(np.ascontiguousarray(value).reshape(value.shape), name)
            self.initializers[name] = proto
        return name

    def dense(self, x: str, name: str) -> str:
        product = self.add("MatMul", x, self.weight(f"{name}.weight"))
        return self.add("Add", product, self.weight(f"{name}.bias"))

    def norm(self, x: str, name: str) -> str:
        parts = (self.weight(f"{name}.{part}") for part in ("weight", "bias"))
        return self.add("LayerNormalization", x, *parts, axis=-1, epsilon=_EPSILON)

    def split(self, x: str, axis: int, count: int) -> list[str]:
        """Splits into equal parts of size 1, and removes the axis."""
        parts = self.add_all("Split", count, x, axis=axis, num_outputs=count)
        return [self.add("Squeeze", part, self.constant([axis])) for part in parts]

    def first_token(self, states: str) -> str:
        """Returns the states [B, H] of the first tokens."""
        return self.add("Gather", states, self.constant(0), axis=1)


def write_model(path: str, source: Source, variables: Variables) -> list[str]:
    """Writes the model of `build_model` to a file; returns the names of its outputs.

    Raises:
      UserError: see `build_model`; or the model is too large for the format.
    """
    if sum(value.nbytes for value in variables.values.values()) >= _LARGEST:
        raise UserError(f"{source.checkpoint} has more than the 2 GB that fit in a file of ONNX")
    model = build_model(source, variables)
    onnx.save_model(model, path)
    return [output.name for output in model.graph.output]


def build_model(source: Source, variables: Variables) -> onnx.ModelProto:
    """Builds the model: its inputs are `INPUTS`, with any batch size and any length.

    Outputs by the head in the checkpoint:

      SQuAD 1.1: `start_logits` and `end_logits`, [B, S]
      SQuAD 2.0: the outputs of this project's export, see `albert.tasks.squad.head`
      classification: `logits` [B, labels]
      named entities: `logits` [B, S, tags]
      otherwise: `last_hidden_state` [B, S, H] and, if the checkpoint has a pooler, `pooler_output`

    Raises:
      UserError: the configuration has an activation that ONNX lacks.
    """
    graph = _Graph(variables.values)
    states = _encoder(graph, source)
    outputs = _outputs(graph, states, variables.parts, source)
    values = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "sequence"])
        for name in INPUTS
    ]
    results = []
    for name, (tensor, kind, shape) in outputs.items():
        graph.nodes.append(helper.make_node("Identity", [tensor], [name]))
        results.append(helper.make_tensor_value_info(name, kind, shape))
    built = helper.make_graph(
        graph.nodes, "albert", values, results, [*graph.initializers.values()]
    )
    # The version of the format that came with the operators.
    opset = helper.make_opsetid("", OPSET)
    model = helper.make_model(
        built,
        producer_name="albert-tensorflow",
        opset_imports=[opset],
        ir_version=helper.find_min_ir_version_for([opset]),
    )
    onnx.checker.check_model(model)
    return model


def _encoder(graph: _Graph, source: Source) -> str:
    """Adds the embeddings and all layers; returns the last states [B, S, H]."""
    config, family = source.config, source.family
    ids, mask, segments = INPUTS
    length = graph.add("Shape", ids, start=1, end=2)
    prefix = f"{family}.embeddings"
    tables = [graph.weight(f"{prefix}.{n}_embeddings.weight") for n in ("word", "token_type")]
    summands = [graph.add("Gather", t, of) for t, of in zip(tables, (ids, segments), strict=True)]
    positions = graph.weight(f"{prefix}.position_embeddings.weight")
    start, axis = graph.constant([0]), graph.constant([0])
    summands.append(graph.add("Slice", positions, start, length, axis))
    state = graph.add("Add", graph.add("Add", *summands[:2]), summands[2])
    state = graph.norm(state, f"{prefix}.LayerNorm")
    if config.embedding_size != config.hidden_size:
        state = graph.dense(state, f"{family}.encoder.embedding_hidden_mapping_in")
    # [B, 1, 1, S]
    mask = graph.add("Unsqueeze", mask, graph.constant([1, 2]))
    padding = graph.add("Sub", graph.constant(1), mask)
    bias = graph.add("Cast", padding, to=TensorProto.FLOAT)
    bias = graph.add("Mul", bias, graph.constant(_MASKED_SCORE, np.float32))
    for layer in range(config.num_hidden_layers):
        for names_of_layer in _layers(source, layer):
            state = _block(graph, state, bias, source, names_of_layer)
    return state


class _LayerNames(NamedTuple):
    """Names of the weights of a block in `transformers`."""

    self_attention: str
    output: str
    output_norm: str
    wide: str
    narrow: str
    norm: str


def _layers(source: Source, layer: int) -> list[_LayerNames]:
    """Returns the names of the blocks of a layer: one in BERT, `inner_group_num` in ALBERT."""
    config = source.config
    if source.family == "bert":
        place = f"bert.encoder.layer.{layer}"
        output, attention = f"{place}.output", f"{place}.attention"
        of_output = f"{attention}.output"
        return [
            _LayerNames(
                f"{attention}.self",
                f"{of_output}.dense",
                f"{of_output}.LayerNorm",
                f"{place}.intermediate.dense",
                f"{output}.dense",
                f"{output}.LayerNorm",
            )
        ]
    group = layer * config.num_hidden_groups // config.num_hidden_layers
    found = []
    for inner in range(config.inner_group_num):
        place = f"albert.encoder.albert_layer_groups.{group}.albert_layers.{inner}"
        attention = f"{place}.attention"
        found.append(
            _LayerNames(
                attention,
                f"{attention}.dense",
                f"{attention}.LayerNorm",
                f"{place}.ffn",
                f"{place}.ffn_output",
                f"{place}.full_layer_layer_norm",
            )
        )
    return found


def _block(graph: _Graph, state: str, bias: str, source: Source, of: _LayerNames) -> str:
    """Adds self-attention and feed-forward, each with a residual and a layer norm."""
    config = source.config
    heads, size = config.num_attention_heads, config.hidden_size // config.num_attention_heads

    def by_head(name: str, order: Sequence[int]) -> str:
        x = graph.dense(state, f"{of.self_attention}.{name}")
        # A 0 keeps the size of the input: batch and length.
        x = graph.add("Reshape", x, graph.constant([0, 0, heads, size]))
        return graph.add("Transpose", x, perm=order)

    query, value = (by_head(name, [0, 2, 1, 3]) for name in ("query", "value"))
    query = graph.add("Mul", query, graph.constant(1 / math.sqrt(size), np.float32))
    scores = graph.add("MatMul", query, by_head("key", [0, 2, 3, 1]))
    probabilities = graph.add("Softmax", graph.add("Add", scores, bias), axis=-1)
    context = graph.add("MatMul", probabilities, value)
    context = graph.add("Transpose", context, perm=[0, 2, 1, 3])
    context = graph.add("Reshape", context, graph.constant([0, 0, config.hidden_size]))
    attention = graph.add("Add", graph.dense(context, of.output), state)
    attention = graph.norm(attention, of.output_norm)
    wide = _activate(graph, graph.dense(attention, of.wide), config.hidden_act)
    return graph.norm(graph.add("Add", graph.dense(wide, of.narrow), attention), of.norm)


def _activate(graph: _Graph, x: str, name: str | Callable | None) -> str:
    """Adds the activation with a name, see `albert.model.layers.get_activation`."""
    name = name.lower() if isinstance(name, str) else name
    if name in ("gelu", "gelu_erf"):
        form = "tanh" if name == "gelu" else "none"
        return graph.add("Gelu", x, approximate=form)
    kinds = {"relu": "Relu", "tanh": "Tanh", "linear": "", "": "", None: ""}
    if name not in kinds:
        raise UserError(f"hidden_act {name!r} cannot be written to ONNX")
    return graph.add(kinds[name], x) if kinds[name] else x


# A tensor, its type and its shape.
_Output = tuple[str, int, list[str | int]]


def _outputs(
    graph: _Graph, states: str, parts: Sequence[str], source: Source
) -> dict[str, _Output]:
    """Adds the head of a checkpoint; returns the outputs by name."""
    of_tokens: list[str | int] = ["batch", "sequence"]
    if names.SQUAD_V1 in parts:
        logits = graph.split(graph.dense(states, "qa_outputs"), axis=2, count=2)
        labels = ("start_logits", "end_logits")
        return {n: (t, TensorProto.FLOAT, of_tokens) for n, t in zip(labels, logits, strict=True)}
    if names.TOKENS in parts:
        tags = graph.dense(states, "classifier")
        return {"logits": (tags, TensorProto.FLOAT, [*of_tokens, "label"])}
    if names.SQUAD_V2 in parts:
        return _squad_v2(graph, states)
    pooled = ""
    if names.POOLER in parts:
        place = "bert.pooler.dense" if source.family == "bert" else "albert.pooler"
        pooled = graph.add("Tanh", graph.dense(graph.first_token(states), place))
    if names.CLASSIFIER in parts:
        return {
            "logits": (graph.dense(pooled, "classifier"), TensorProto.FLOAT, ["batch", "label"])
        }
    of_state = [*of_tokens, source.config.hidden_size]
    outputs: dict[str, _Output] = {"last_hidden_state": (states, TensorProto.FLOAT, of_state)}
    if pooled:
        outputs["pooler_output"] = (pooled, TensorProto.FLOAT, ["batch", of_state[-1]])
    return outputs


def _squad_v2(graph: _Graph, states: str) -> dict[str, _Output]:
    """Adds the head of SQuAD 2.0 for prediction, see `albert.tasks.squad.head.answer_outputs`."""
    outside = _outside_answers(graph)
    starts = graph.add("Squeeze", graph.dense(states, "start_logits.dense"), graph.constant([2]))
    starts = _inside(graph, starts, outside)
    # The log-odds that there is no answer, from the expected start and [CLS].
    weights = graph.add("Unsqueeze", graph.add("Softmax", starts, axis=-1), graph.constant([1]))
    expected = graph.add("Squeeze", graph.add("MatMul", weights, states), graph.constant([1]))
    both = graph.add("Concat", expected, graph.first_token(states), axis=-1)
    no_answer = graph.add("Tanh", graph.dense(both, "answer_class.dense_0"))
    no_answer = graph.add("MatMul", no_answer, graph.weight("answer_class.dense_1.weight"))
    no_answer = graph.add("Squeeze", no_answer, graph.constant([1]))
    # The best starts, and for each of them the scores of ends, [B, K, S].
    length = graph.add("Shape", INPUTS[0], start=1, end=2)
    count = graph.add("Min", graph.constant([_BEST]), length)
    start_scores, start_index = graph.add_all(
        "TopK", 2, graph.add("LogSoftmax", starts, axis=-1), count
    )
    places = graph.add("Unsqueeze", start_index, graph.constant([2]))
    chosen = graph.add("GatherND", states, places, batch_dims=1)
    # As in TensorFlow, the halves of the kernel for ends and for starts are multiplied separately.
    kernel = graph.weight("end_logits.dense_0.weight")
    halves = graph.add_all("Split", 2, kernel, axis=0, num_outputs=2)
    of_ends, of_starts = (
        graph.add("MatMul", x, half) for x, half in zip((states, chosen), halves, strict=True)
    )
    of_starts = graph.add("Add", of_starts, graph.weight("end_logits.dense_0.bias"))
    pairs = [
        graph.add("Unsqueeze", x, graph.constant([axis]))
        for x, axis in ((of_ends, 1), (of_starts, 2))
    ]
    ends = graph.norm(graph.add("Tanh", graph.add("Add", *pairs)), "end_logits.LayerNorm")
    ends = graph.add("Squeeze", graph.dense(ends, "end_logits.dense_1"), graph.constant([3]))
    ends = _inside(graph, ends, graph.add("Unsqueeze", outside, graph.constant([1])))
    best_ends = graph.add_all("TopK", 2, graph.add("LogSoftmax", ends, axis=-1), count)
    # A 0 keeps the batch, -1 is K * M.
    end_scores, end_index = (graph.add("Reshape", x, graph.constant([0, -1])) for x in best_ends)
    integers = {
        name: graph.add("Cast", x, to=TensorProto.INT32)
        for name, x in (("start_top_index", start_index), ("end_top_index", end_index))
    }
    scores = {"start_top_log_probs": start_scores, "end_top_log_probs": end_scores}
    outputs: dict[str, _Output] = {"cls_logits": (no_answer, TensorProto.FLOAT, ["batch"])}
    for kind, tensors in ((TensorProto.FLOAT, scores), (TensorProto.INT32, integers)):
        for name, tensor in tensors.items():
            last = "starts" if name.startswith("start") else "ends"
            outputs[name] = (tensor, kind, ["batch", last])
    return outputs


def _outside_answers(graph: _Graph) -> str:
    """Returns [B, S], 1 where no answer can be, see `albert.tasks.squad.head.outside_answers`."""
    segments = graph.add("Cast", INPUTS[2], to=TensorProto.FLOAT)
    zero = graph.constant(0, np.float32)

    def shifted(by: int) -> str:
        # Without the first tokens, and with zeros at the end.
        axis, end = graph.constant([1]), graph.constant([np.iinfo(np.int64).max])
        rest = graph.add("Slice", segments, graph.constant([by]), end, axis)
        return graph.add("Pad", rest, graph.constant([0, 0, 0, by]), zero)

    # The last token of segment 1 is [SEP]. The first token of a text is after the question.
    in_text = graph.add("Mul", segments, shifted(1))
    first = graph.add("Slice", segments, *(graph.constant([n]) for n in (0, 1, 1)))
    rest = graph.add("Slice", in_text, *map(graph.constant, ([1], [np.iinfo(np.int64).max], [1])))
    outside = graph.add("Sub", graph.constant(1, np.float32), rest)
    return graph.add("Concat", graph.add("Mul", first, zero), outside, axis=1)


def _inside(graph: _Graph, logits: str, outside: str) -> str:
    """Returns scores with very low ones at positions where no answer can be."""
    inside = graph.add("Sub", graph.constant(1, np.float32), outside)
    low = graph.add("Mul", outside, graph.constant(_OUTSIDE_SCORE, np.float32))
    return graph.add("Add", graph.add("Mul", logits, inside), low)
