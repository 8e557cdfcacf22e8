"""The rules that choose a graph's bfloat16 nodes under a configuration, and its casts.

The rules are those that Habana documents for `TF_BF16_CONVERSION`. Neighbors of a node are the
nodes whose float32 outputs it takes and those that take its own.

- A node that a non-convertible exception matches stays float32, whatever else is said of it.
- A node that a convertible exception matches, or whose type is on the allowlist, is converted.
- A conditional node, by its type or by a conditional exception, is converted if at least one
  neighbor is: the least fixpoint, so that conditional nodes alone do not convert each other.
- A strict conditional node needs, besides, that all neighbors are converted that could be: the
  greatest fixpoint, so that a chain of strict nodes does not wait for itself. Whether one could be
  is a question of its op: one on no list could, a variable could not.
- A node on no list stays float32.

Only nodes with a bfloat16 kernel on the device are converted. Bodies of functions are decided each
for itself; arguments and results of functions stay float32. An exception is about a node of a
function if it matches the node's name there, or that name after the name of a node that calls the
function, such as `scope/cond/MatMul`.
"""

from __future__ import annotations

import collections
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import tensorflow.compat.v1 as tf

from albert.bf16.configuration import Bf16Config, NodePattern, limited_matching
from albert.bf16.graph_defs import Body, bodies, data_inputs, float32_attributes, have_type
from albert.bf16.kernel_support import allowed_attributes, convertible_attributes

ALLOWED = "allowlist"
FORCED = "convertible exception"
CONDITIONAL = "conditional"
STRICT = "strict conditional"
KEPT = "non-convertible exception"
NOT_LISTED = "on no list"
NO_KERNEL = "no bfloat16 kernel"
NO_NEIGHBOR = "no neighbor is converted"
A_NEIGHBOR_STAYS = "a neighbor stays float32"
_CONVERTING = (ALLOWED, FORCED, CONDITIONAL, STRICT)
_RULES = (*_CONVERTING, KEPT, NO_KERNEL, A_NEIGHBOR_STAYS, NO_NEIGHBOR, NOT_LISTED)


class Decision(NamedTuple):
    """What becomes of a node that has float32 inputs or outputs.

    Attributes:
      function: the function that the node is in, "" for the graph.
      node: its name.
      op: its type.
      rule: why, one of the names above.
      attributes: its type attributes that could be bfloat16.
    """

    function: str
    node: str
    op: str
    rule: str
    attributes: tuple[str, ...]

    @property
    def is_converted(self) -> bool:
        """Tells whether the node computes in bfloat16."""
        return self.rule in _CONVERTING


class Cast(NamedTuple):
    """A cast at a border, one for all nodes of its function that need it.

    Attributes:
      function: the function that it is in, "" for the graph.
      tensor: a reference to the tensor that is cast.
      dtype: what to, bfloat16 or float32.
    """

    function: str
    tensor: str
    dtype: tf.DType


class ConversionPlan(NamedTuple):
    """What a configuration makes of a graph.

    Attributes:
      source: the configuration's path.
      decisions: in the order of the nodes.
      casts: in the order of the nodes that need them.
      outputs: names of the graph's tensors that stay float32, by a cast if need be.
    """

    source: str
    decisions: list[Decision]
    casts: list[Cast]
    outputs: tuple[str, ...] = ()

    def counts(self) -> dict[tuple[str, str], int]:
        """Counts the nodes by rule and op type, converted ones first."""
        found = collections.Counter((d.rule, d.op) for d in self.decisions)
        return dict(sorted(found.items(), key=lambda item: (_RULES.index(item[0][0]), item[0][1])))

    def cast_counts(self) -> dict[str, int]:
        """Counts the casts by the type that they cast to."""
        return collections.Counter(cast.dtype.name for cast in self.casts)

    def as_dict(self) -> dict:
        """Returns the counts in a form that JSON can hold."""
        operations = [
            {"rule": rule, "op": op, "nodes": nodes} for (rule, op), nodes in self.counts().items()
        ]
        return {"config": self.source, "operations": operations, "casts": dict(self.cast_counts())}

    def summary(self) -> str:
        """Says in a line how many nodes are converted and cast, and what has no kernel."""
        converted = sum(decision.is_converted for decision in self.decisions)
        casts = self.cast_counts()
        without = sorted({d.op for d in self.decisions if d.rule == NO_KERNEL})
        missing = f"; {NO_KERNEL} here: {', '.join(without)}" if without else ""
        return (
            f"bfloat16 by {self.source}: {converted} of {len(self.decisions)} float32 operations, "
            f"{casts['bfloat16']} casts to bfloat16, {casts['float32']} back{missing}"
        )

    def table(self) -> list[str]:
        """Returns lines for people: a row for every rule and op type, then the casts."""
        rows = [("rule", "op", "nodes"), *((*key, n) for key, n in self.counts().items())]
        rows += [("border", f"cast to {name}", n) for name, n in self.cast_counts().items()]
        return [f"{rule:<26}{op:<38}{nodes:>6}" for rule, op, nodes in rows]


def plan(
    graph_def: tf.GraphDef,
    config: Bf16Config,
    device: str = "cpu",
    others: Container[str] = (),
    outputs: Iterable[str] = (),
) -> ConversionPlan:
    """Decides for every node that has float32 inputs or outputs.

    Args:
      graph_def: a graph with its functions, such as `tf.Graph.as_graph_def` gives; it is not
        changed.
      config: which operations to convert.
      device: whose kernels are looked for, "cpu" or "gpu"; on the "hpu" an op has one if its type
        allows bfloat16.
      others: names of nodes and functions that are left as they are.
      outputs: names of the graph's tensors that are used outside and must be float32 there.

    Raises:
      ValueError: the graph has legacy variables.
      UserError: a pattern of the configuration takes too long.
    """
    _check_variables(graph_def)
    outputs = tuple(outputs)
    decisions, casts = [], {}
    for body in bodies(graph_def, outputs):
        if body.function and body.function in others:
            continue
        with limited_matching():
            own_rules = _own_rules(body, config, others)
        nodes = {name: _attributes(body, name, own_rules[name], device) for name in own_rules}
        rules = _decide(body, nodes, own_rules)
        decisions += [
            Decision(body.function, name, body.nodes[name].op, rule, nodes[name])
            for name, rule in rules.items()
        ]
        converted = {name: nodes[name] for name, rule in rules.items() if rule in _CONVERTING}
        casts.update(
            dict.fromkeys(Cast(body.function, b.tensor, b.dtype) for b in borders(body, converted))
        )
    return ConversionPlan(config.source, decisions, list(casts), outputs)


def _check_variables(graph_def: tf.GraphDef) -> None:
    """Refuses legacy variables: their cast may run before the assignment whose value is wanted."""
    for node in graph_def.node:
        if node.op in ("Variable", "VariableV2"):
            raise ValueError(
                f"{node.name} is a legacy variable, and cannot be cast safely; call "
                "tf.enable_resource_variables() before the graph is built"
            )


def _own_rules(body: Body, config: Bf16Config, others: Container[str]) -> dict[str, str]:
    """Returns the nodes to decide on, and what the configuration says of each by itself."""
    rules = {}
    for name, node in body.nodes.items():
        op_def = body.op_defs.get(node.op)
        if not op_def or name in others or not float32_attributes(node, op_def):
            continue
        rules[name] = _own_rule(body.names_of(name), node.op, config)
    return rules


def _own_rule(names: Sequence[str], op: str, config: Bf16Config) -> str:
    """Returns the configuration's decision on a node by itself, without its neighbors."""
    if _matches(config.non_convertible_exceptions, names, op):
        return KEPT
    if _matches(config.convertible_exceptions, names, op):
        return FORCED
    if op in config.allowlist:
        return ALLOWED
    if op in config.conditional_list or _matches(config.conditional_exceptions, names, op):
        return CONDITIONAL
    if op in config.strict_conditional_list:
        return STRICT
    return NOT_LISTED


def _matches(exceptions: Iterable[NodePattern], names: Sequence[str], op: str) -> bool:
    """Tells whether an exception is about a node of those names and that type."""
    return any(exception.matches(name, op) for exception in exceptions for name in names)


def _attributes(body: Body, name: str, rule: str, device: str) -> tuple[str, ...]:
    """Returns the type attributes by which a node could be bfloat16, if there are any."""
    node = body.nodes[name]
    op_def = body.op_defs[node.op]
    # Looking for a kernel makes one, with its side effects; so only nodes that may be converted.
    if rule in _CONVERTING:
        return convertible_attributes(node, op_def, device)
    return allowed_attributes(node, op_def)


def _decide(
    body: Body, nodes: Mapping[str, tuple[str, ...]], own_rules: Mapping[str, str]
) -> dict[str, str]:
    """Returns the rule for every node, with its neighbors considered."""
    rules = {
        name: NO_KERNEL if rule in _CONVERTING and not nodes[name] else rule
        for name, rule in own_rules.items()
    }
    neighbors = _neighbors(body, nodes)
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


def _neighbors(body: Body, nodes: Mapping[str, tuple[str, ...]]) -> dict[str, set[str]]:
    """Returns the nodes on the other side of every tensor that could be bfloat16 on both sides."""
    found: dict[str, set[str]] = {name: set() for name in nodes}
    for name in nodes:
        for reference, could_be in _typed_inputs(body, name, nodes):
            source = body.source(reference)
            if could_be and source and _is_output(body, source, nodes):
                found[name].add(source[0])
                found[source[0]].add(name)
    return found


def _spread(always: set[str], conditional: set[str], neighbors: Mapping[str, set[str]]) -> set[str]:
    """Returns `always` and the conditional nodes that connect to it through each other."""
    reached, new = set(always), list(always)
    while new:
        for name in neighbors[new.pop()] & conditional - reached:
            reached.add(name)
            new.append(name)
    return reached


class TypeBoundary(NamedTuple):
    """An input whose type differs from that of the tensor it takes.

    Attributes:
      node: the name of the node that takes it; "" where it is used outside.
      place: which of the node's inputs, or the name of the result.
      tensor: a reference to the tensor.
      dtype: what it is to be cast to.
    """

    node: str
    place: int | str
    tensor: str
    dtype: tf.DType


def borders(body: Body, converted: Mapping[str, tuple[str, ...]]) -> Iterator[TypeBoundary]:
    """Yields the places where casts are needed.

    Args:
      body: a graph or function.
      converted: the nodes of it that are to be converted, and by which type attributes.
    """
    for name in body.nodes:
        for place, (tensor, wanted) in enumerate(_typed_inputs(body, name, converted)):
            source = body.source(tensor)
            given = source is not None and _is_output(body, source, converted)
            if wanted != given:
                dtype = tf.bfloat16 if wanted else tf.float32
                yield TypeBoundary(name, place, body.first_read(tensor), dtype)
    for name, tensor in sorted(body.results.items()):
        source = body.source(tensor)
        if source and _is_output(body, source, converted):
            yield TypeBoundary("", name, tensor, tf.float32)


def _typed_inputs(
    body: Body, name: str, nodes: Mapping[str, tuple[str, ...]]
) -> Iterator[tuple[str, bool]]:
    """Yields a node's inputs, and whether the node's attributes in `nodes` are their types."""
    node = body.nodes[name]
    references = data_inputs(node)
    if name not in nodes:
        return ((reference, False) for reference in references)
    typed = have_type(body.op_defs[node.op].input_arg, node, nodes[name])
    return zip(references, typed, strict=True)


def _is_output(body: Body, source: tuple[str, int], nodes: Mapping[str, tuple[str, ...]]) -> bool:
    """Tells whether an output of a node has one of the node's attributes in `nodes` as its type."""
    name, number = source
    if name not in nodes:
        return False
    node = body.nodes[name]
    return have_type(body.op_defs[node.op].output_arg, node, nodes[name])[number]
