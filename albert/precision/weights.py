"""Variables in low precision, which hold the weights of a graph that only predicts."""

from __future__ import annotations

import tensorflow.compat.v1 as tf

# Name of the collection of the operations that set these variables from those of the model. They
# must run after the model's variables have changed.
SETTERS = "setters_of_weights"


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
