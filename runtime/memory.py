"""How much memory a training step needs, from its graph alone."""

from __future__ import annotations

import tensorflow.compat.v1 as tf

# Where `tf.gradients` puts what it adds to a graph.
_GRADIENTS = "gradients/"
_SLOTS = ("/adam_m", "/adam_v")


def estimate_memory(graph: tf.Graph) -> dict[str, int]:
    """Bytes by part, of a training graph with static shapes.

    Activations are the outputs of the forward pass that the backward pass takes, each counted once;
    what the device's library needs besides, and what optimizers of the graph save, is not in it.
    """
    variables = graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)
    trainable = graph.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES)
    sums = graph.get_collection(tf.GraphKeys.LOCAL_VARIABLES)
    kept = {
        tensor.ref(): _bytes(tensor)
        for operation in graph.get_operations()
        if _is_backward(operation.name)
        for tensor in operation.inputs
        if not _is_backward(tensor.op.name)
        and tensor.op.type not in ("ReadVariableOp", "VarHandleOp", "Const")
    }
    parts = {
        "parameters": sum(map(_bytes, trainable)),
        "gradients": sum(map(_bytes, trainable)),
        "optimizer state": sum(_bytes(v) for v in variables if v.op.name.endswith(_SLOTS)),
        "accumulated gradients": sum(map(_bytes, sums)),
        "activations": sum(kept.values()),
    }
    parts = {name: size for name, size in parts.items() if size}
    return {**parts, "in all": sum(parts.values())}


def checkpoint_bytes(graph: tf.Graph) -> int:
    """The size of a checkpoint of a graph's variables, and of the graph beside it."""
    variables = graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)
    return sum(map(_bytes, variables)) + graph.as_graph_def().ByteSize()


def format_bytes(size: int) -> str:
    """A size for people: "1.25 GB", "0.3 MB"."""
    return f"{size / 1e9:.2f} GB" if size >= 1e8 else f"{size / 1e6:.1f} MB"


def _is_backward(name: str) -> bool:
    return name.startswith(_GRADIENTS) or f"/{_GRADIENTS}" in name


def _bytes(tensor: tf.Tensor | tf.Variable) -> int:
    count = tensor.shape.num_elements()
    return 0 if count is None else count * tensor.dtype.size
