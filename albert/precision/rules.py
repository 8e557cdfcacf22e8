"""The rules that choose a graph's nodes of low precision under a configuration, and its casts.

The low precision is bfloat16 or float16. The rules are those that Habana documents for
`TF_BF16_CONVERSION`. The neighbors of a node are the nodes that produce its float32 inputs, and
those that take its float32 outputs.

- A node that matches a non-convertible exception stays float32, regardless of the other rules.
- A node that matches a convertible exception, or whose type is in the allowlist, is converted.
- A node whose type is in the conditional list is converted if at least one neighbor is. This is the
  least fixpoint, so conditional nodes do not convert only each other.
- A strict conditional node is converted if, in addition, all convertible neighbors are. This is the
  greatest fixpoint, so a chain of strict nodes does not wait for itself. Whether a neighbor is
  convertible depends only on its op: a node in no list is, a variable is not.
- A node in no list stays float32.

Only nodes with a kernel of this precision on the device are converted. Functions, such as the
branches of a condition, stay float32: those of a training only update weights.
"""

from __future__ import annotations

import collections
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from albert.precision import graph_defs
from albert.precision.configuration import PrecisionConfig
from albert.precision.graph_defs import Nodes

ALLOWED = "allowlist"
FORCED = "convertible exception"
CONDITIONAL = "conditional"
STRICT = "strict conditional"
KEPT = "non-convertible exception"
NOT_LISTED = "on no list"
NO_KERNEL = "no kernel"
NO_NEIGHBOR = "no neighbor is converted"
A_NEIGHBOR_STAYS = "a neighbor stays float32"
_CONVERTING = (ALLOWED, FORCED, CONDITIONAL, STRICT)
_RULES = (*_CONVERTING, KEPT, NO_KERNEL, A_NEIGHBOR_STAYS, NO_NEIGHBOR, NOT_LISTED)


class Decision(NamedTuple):
    """The decision on a node with float32 inputs or outputs; `rule` is one of the names above."""

    node: str
    op: str
    rule: str

    @property
    def is_converted(self) -> bool:
        """Returns whether the node computes in low precision."""
        return self.rule in _CONVERTING


class Cast(NamedTuple):
    """A cast of a tensor to a type, which all nodes share."""

    tensor: str
    dtype: tf.DType


class ConversionPlan(NamedTuple):
    """The decisions and casts of a graph under a configuration, in the order of the nodes.

    `source` is the configuration's path, `results` has the tensors of the graph that are used
    outside by their names there, and `converted` the type attributes to convert by node.
    """

    source: str
    dtype: tf.DType
    decisions: list[Decision]
    casts: list[Cast]
    graph_def: tf.GraphDef
    nodes: Nodes
    results: dict[str, str]
    converted: dict[str, tuple[str, ...]]

    def as_dict(self) -> dict[str, Any]:
        """Returns the numbers of nodes by rule and op type, converted ones first, and of casts."""
        counts = collections.Counter((d.rule, d.op) for d in self.decisions)
        order = sorted(counts, key=lambda key: (_RULES.index(key[0]), key[1]))
        operations = [{"rule": rule, "op": op, "nodes": counts[rule, op]} for rule, op in order]
        casts = collections.Counter(cast.dtype.name for cast in self.casts)
        return {"config": self.source, "operations": operations, "casts": dict(casts)}

    def summary(self) -> str:
        """Returns a line with the numbers of converted nodes and casts, and ops without kernel."""
        converted = sum(decision.is_converted for decision in self.decisions)
        casts, name = self.as_dict()["casts"], self.dtype.name
        without = sorted({d.op for d in self.decisions if d.rule == NO_KERNEL})
        missing = f"; no {name} kernel here: {', '.join(without)}" if without else ""
        return (
            f"{name} by {self.source}: {converted} of {len(self.decisions)} float32 operations, "
            f"{casts.get(name, 0)} casts to {name}, {casts.get('float32', 0)} back{missing}"
        )

    def table(self) -> list[str]:
        """Returns a human-readable table: a line for each rule and op type, then the casts."""
        report = self.as_dict()
        rows = [("rule", "op", "nodes"), *(one.values() for one in report["operations"])]
        rows += [("border", f"cast to {name}", n) for name, n in report["casts"].items()]
        return [f"{rule:<26}{op:<38}{nodes:>6}" for rule, op, nodes in rows]


def plan(
    graph_def: tf.GraphDef,
    config: PrecisionConfig,
    device: str = "cpu",
    others: Container[str] = (),
    outputs: Iterable[str] = (),
) -> ConversionPlan:
    """Decides which nodes of a graph with float32 inputs or outputs are converted.

    For example, MatMul -> BiasAdd -> Softmax with MatMul in the allowlist, BiasAdd in the
    conditional list and Softmax in none: MatMul is converted; BiasAdd too, because a neighbor is;
    Softmax is not. Casts go before the inputs of MatMul and after BiasAdd.

    For the device, see `convertible_attributes`. Nodes named in `others` are not converted; the
    tensors named in `outputs` are used outside, and must be float32 there.
    """
    # The casts of legacy variables may run before an assignment.
    for node in graph_def.node:
        if node.op in ("Variable", "VariableV2"):
            raise ValueError(
                f"{node.name} is a legacy variable, which cannot be cast safely; call "
                "tf.enable_resource_variables() before the graph is built"
            )
    nodes = Nodes(graph_def)
    own_rules, attributes = {}, {}
    for name, node in nodes.by_name.items():
        op_def = nodes.op_defs.get(node.op)
        if not op_def or name in others or not graph_defs.float32_attributes(node, op_def):
            continue
        own_rules[name] = rule = _own_rule(name, node.op, config)
        # Whether another neighbor could be converted depends only on its op, not on its kernels.
        where = device if rule in _CONVERTING else "hpu"
        attributes[name] = graph_defs.convertible_attributes(node, op_def, config.dtype, where)
    rules = _decide(nodes, attributes, own_rules)
    decisions = [Decision(name, nodes.by_name[name].op, rule) for name, rule in rules.items()]
    converted = {name: attributes[name] for name, rule in rules.items() if rule in _CONVERTING}
    results = {name: name.removesuffix(":0") for name in outputs}
    casts = dict.fromkeys(cast for *_, cast in borders(nodes, results, converted, config.dtype))
    planned = decisions, list(casts), graph_def, nodes, results, converted
    return ConversionPlan(config.source, config.dtype, *planned)


def _own_rule(name: str, op: str, config: PrecisionConfig) -> str:
    """Returns the rule for a node, without considering its neighbors."""
    if any(exception.matches(name, op) for exception in config.non_convertible_exceptions):
        return KEPT
    if any(exception.matches(name, op) for exception in config.convertible_exceptions):
        return FORCED
    if op in config.allowlist:
        return ALLOWED
    if op in config.conditional_list:
        return CONDITIONAL
    if op in config.strict_conditional_list:
        return STRICT
    return NOT_LISTED


def _decide(
    nodes: Nodes, attributes: Mapping[str, tuple[str, ...]], own_rules: Mapping[str, str]
) -> dict[str, str]:
    """Returns the rule for every node, considering its neighbors."""
    rules = {
        name: NO_KERNEL if rule in _CONVERTING and not attributes[name] else rule
        for name, rule in own_rules.items()
    }
    neighbors = _neighbors(nodes, attributes)
    always = {name for name, rule in rules.items() if rule in (ALLOWED, FORCED)}
    strict = {name for name, rule in rules.items() if rule == STRICT}
    waiting = {name for name, rule in rules.items() if rule == CONDITIONAL} | strict
    refused, converted = set(), _spread(always, waiting, neighbors)
    while new := {n for n in strict & converted if neighbors[n] - converted}:
        refused |= new
        converted = _spread(always, waiting - refused, neighbors)
    for name in waiting - converted:
        rules[name] = A_NEIGHBOR_STAYS if name in refused else NO_NEIGHBOR
    return rules


def _neighbors(nodes: Nodes, attributes: Mapping[str, tuple[str, ...]]) -> dict[str, set[str]]:
    """Returns the nodes on the other side of every tensor that could be converted on both sides."""
    neighbors: dict[str, set[str]] = {name: set() for name in attributes}
    for name in attributes:
        for tensor, could_be in _typed_inputs(nodes, name, attributes):
            if could_be and _is_output(nodes, tensor, attributes):
                source = nodes.node_of(tensor).name
                neighbors[name].add(source)
                neighbors[source].add(name)
    return neighbors


def _spread(always: set[str], conditional: set[str], neighbors: Mapping[str, set[str]]) -> set[str]:
    """Returns `always` and all conditional nodes connected to it through conditional nodes."""
    reached, new = set(always), list(always)
    while new:
        for name in neighbors[new.pop()] & conditional - reached:
            reached.add(name)
            new.append(name)
    return reached


def borders(
    nodes: Nodes,
    results: Mapping[str, str],
    converted: Mapping[str, tuple[str, ...]],
    dtype: tf.DType,
) -> Iterator[tuple[str, int | str, Cast]]:
    """Yields inputs whose types differ from those of their tensors: node, index and needed cast.

    For a result, which is used outside, it yields "", the name of the result, and the cast.
    `converted` has the type attributes to convert to `dtype`, by the name of the node.
    """
    for name in nodes.by_name:
        for port, (tensor, takes_low) in enumerate(_typed_inputs(nodes, name, converted)):
            if takes_low != _is_output(nodes, tensor, converted):
                cast_to = dtype if takes_low else tf.float32
                yield name, port, Cast(nodes.first_read(tensor), cast_to)
    for name, tensor in sorted(results.items()):
        if _is_output(nodes, tensor, converted):
            yield "", name, Cast(tensor, tf.float32)


def _typed_inputs(
    nodes: Nodes, name: str, attributes: Mapping[str, tuple[str, ...]]
) -> Iterator[tuple[str, bool]]:
    """Yields a node's inputs, each with whether one of its `attributes` is the input's type."""
    node = nodes.by_name[name]
    references = [reference for reference in node.input if not reference.startswith("^")]
    if name not in attributes:
        return ((reference, False) for reference in references)
    typed = graph_defs.have_type(nodes.op_defs[node.op].input_arg, node, attributes[name])
    return zip(references, typed, strict=True)


def _is_output(nodes: Nodes, tensor: str, attributes: Mapping[str, tuple[str, ...]]) -> bool:
    """Returns whether one of the `attributes` of the node that produces a tensor is its type."""
    node = nodes.node_of(tensor)
    if node.name not in attributes:
        return False
    typed = graph_defs.have_type(nodes.op_defs[node.op].output_arg, node, attributes[node.name])
    return typed[int(tensor.partition(":")[2] or 0)]
