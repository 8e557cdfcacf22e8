"""Variables in low precision, which hold the weights of a graph that only predicts."""

from __future__ import annotations

import collections
import math

import tensorflow.compat.v1 as tf

from albert.devices import onednn

# Name of the collection of the operations that set these variables from those of the model. They
# must run after the model's variables have changed.
SETTERS = "setters_of_weights"
# Layers that share weights have a reordered copy each. All copies except the first of every weight
# may take this many bytes: those of ALBERT-large do, and those of ALBERT-xlarge take 2.3 GB.
_MOST_BYTES = 10**9


def hold_weights(graph_def: tf.GraphDef) -> list[str]:
    """Replaces each cast of a variable by a variable that holds its result.

    So a prediction does not cast the weights again. Returns the names of the operations that set
    these variables.
    """
    nodes = {node.name: node for node in graph_def.node}
    setters = []
    for node in list(graph_def.node):
        read = nodes.get(node.input[0]) if node.op == "Cast" else None
        if read is None or read.op != "ReadVariableOp":
            continue
        variable = graph_def.node.add(name=f"{node.name}/held", op="VarHandleOp")
        variable.attr["shared_name"].s = variable.name.encode()
        variable.attr["shape"].CopyFrom(nodes[read.input[0]].attr["shape"])
        cast = graph_def.node.add()
        cast.CopyFrom(node)
        cast.name = f"{node.name}/value"
        setter = graph_def.node.add(name=f"{node.name}/set", op="AssignVariableOp")
        setter.input.extend([variable.name, cast.name])
        node.op, node.input[:] = "ReadVariableOp", [variable.name]
        node.attr.clear()
        for user in (variable, setter, node):
            user.device = cast.device
            user.attr["dtype"].CopyFrom(cast.attr["DstT"])
        setters.append(setter.name)
    return setters


def limit_copies(graph_def: tf.GraphDef) -> None:
    """Makes dense layers reorder their weights in every run, if copies would be too large."""
    nodes = {node.name: node for node in graph_def.node}
    layers = [node for node in graph_def.node if node.op == onednn.DENSE]
    uses = collections.Counter(nodes[node.input[1]].input[0] for node in layers)
    shapes = {name: nodes[name].attr["shape"].shape for name in uses}
    sizes = {name: 2 * math.prod(dim.size for dim in shape.dim) for name, shape in shapes.items()}
    if sum(sizes[name] * (count - 1) for name, count in uses.items()) > _MOST_BYTES:
        for node in layers:
            node.attr["is_filter_const"].b = False
