"""The memory that a training step needs, from its graph, and that a host has."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from albert.checkpoints.initialization import optimizer_variables
from albert.checkpoints.sharded_state import StateShard, whole_bytes
from albert.devices import host

# The name scope of the operations that `tf.gradients` adds to a graph.
_GRADIENTS = "gradients/"
# Operations whose n-th output shares the memory of their n-th input.
_VIEWS = (
    "ExpandDims",
    "Identity",
    "IdentityN",
    "PreventGradient",
    "Reshape",
    "Squeeze",
    "StopGradient",
)
# Operations whose outputs stay between steps; variables are counted separately.
_KEPT = ("Const", "ReadVariableOp", "VarHandleOp", "VariableV2")
# Bytes of libraries, and of the session's copy of the graph, from the first step on.
_CODE = 150_000_000


def estimate_memory(train_op: tf.Operation, sharded: Sequence[StateShard] = ()) -> dict[str, int]:
    """Returns the bytes of a training step by part, for a graph with static shapes.

    Activations are the tensors of the forward pass, gradients all later ones, both at the moment of
    their joint peak. The backward pass keeps the summands of a sum until the last one is computed.
    The estimate excludes extra memory of the device's library and savings by graph optimizers.
    `sharded` is the optimizer's state that is sharded over workers, see `TrainStep`.
    """
    graph = train_op.graph
    variables = graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)
    trainable = graph.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES)
    slots = optimizer_variables(v.op.name for v in variables)
    own_shares = [share.variable for share in sharded]
    names_of_shares = {v.op.name for v in own_shares}
    local = graph.get_collection(tf.GraphKeys.LOCAL_VARIABLES)
    activations, gradients = _most_at_once(_in_order(train_op))
    parts = {
        "parameters": sum(map(_bytes, trainable)),
        "optimizer state": sum(_bytes(v) for v in variables if v.op.name in slots)
        + sum(map(_bytes, own_shares)),
        "accumulated gradients": sum(
            _bytes(v) for v in local if v.dtype.is_floating and v.op.name not in names_of_shares
        ),
        "activations": activations,
        "gradients and updates": gradients,
    }
    parts = {name: size for name, size in parts.items() if size}
    return {**parts, "in all": sum(parts.values())}


def cpu_memory(parts: dict[str, int]) -> int:
    """Returns the resident memory that a step with these parts adds to a process on the CPU.

    It is larger than the tensors in `estimate_memory`: freed memory is not all reused, and the
    libraries load code for the operations. If gradients are accumulated, the update is a branch of
    the graph, whose tensors are not counted; they are about as large as the gradients. The
    constants are fitted to nine trainings whose peaks benchmarks/memory.py has measured:
    ALBERT-base with 4 and 12 layers, -large with 6, and -xxlarge with 1 and 12, with 64 to 1536
    tokens per batch and one or two batches per step; those with 12 layers with and without gradient
    checkpointing. The sum with the program's memory is within 9 % of the measurements; for the
    whole -xxlarge, within 5 % with checkpointing and 2 % without.
    """
    tensors = parts["activations"] + parts["gradients and updates"]
    return parts["in all"] + tensors // 10 + parts.get("accumulated gradients", 0) + _CODE


def _in_order(operation: tf.Operation) -> list[tf.Operation]:
    """Returns an operation and all that it depends on, each as soon as its inputs are available."""
    # So tensors that an optimizer computes only from its variables exist from the start of a step.
    needed, to_do = set(), [operation]
    while to_do:
        one = to_do.pop()
        if one not in needed:
            needed.add(one)
            to_do += _needs(one)
    depth: dict[tf.Operation, int] = {}
    for one in operation.graph.get_operations():
        if one in needed:
            depth[one] = 1 + max((depth.get(o, 0) for o in _needs(one)), default=0)
    return sorted(depth, key=depth.__getitem__)


def _needs(operation: tf.Operation) -> list[tf.Operation]:
    return [*(tensor.op for tensor in operation.inputs), *operation.control_inputs]


def _most_at_once(operations: list[tf.Operation]) -> tuple[int, int]:
    """Returns the bytes of the forward pass's tensors and of later ones, at their joint peak."""
    # A tensor is freed after its last use. TensorFlow's own allocations differ by a few percent.
    owners, born, last_use = dict[Any, Any](), dict[Any, int](), dict[Any, int]()
    for time, operation in enumerate(operations):
        taken = [owners.get(tensor.ref(), tensor.ref()) for tensor in operation.inputs]
        is_view = operation.type in _VIEWS
        for number, tensor in enumerate(operation.outputs):
            owners[tensor.ref()] = taken[number] if is_view else tensor.ref()
            born.setdefault(owners[tensor.ref()], time)
        last_use |= dict.fromkeys(taken, time)
    # The operations that were created before the first gradient.
    created = operations[-1].graph.get_operations()
    forward = set(itertools.takewhile(lambda operation: _GRADIENTS not in operation.name, created))
    change = np.zeros([2, len(operations) + 1], np.int64)
    for owner, time in born.items():
        tensor = owner.deref()
        if tensor.op.type not in _KEPT:
            part = 0 if tensor.op in forward else 1
            change[part, time] += _bytes(tensor)
            change[part, last_use.get(owner, time) + 1] -= _bytes(tensor)
    alive = change.cumsum(axis=1)
    activations, gradients = alive[:, alive.sum(axis=0).argmax()].tolist()
    return activations, gradients


def checkpoint_bytes(graph: tf.Graph, sharded: Sequence[StateShard] = ()) -> int:
    """Returns the size in bytes of a checkpoint of a graph's variables, including the graph."""
    variables = graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)
    return sum(map(_bytes, variables)) + whole_bytes(sharded) + graph.as_graph_def().ByteSize()


def format_bytes(size: int) -> str:
    """Returns a human-readable size: "1.25 GB", "0.3 MB"."""
    return f"{size / 1e9:.2f} GB" if size >= 1e8 else f"{size / 1e6:.1f} MB"


def _bytes(tensor: tf.Tensor | tf.Variable) -> int:
    count = tensor.shape.num_elements()
    return 0 if count is None else count * tensor.dtype.size


class Memory(NamedTuple):
    """An amount of memory in bytes, and where the number comes from."""

    size: int
    source: str


def host_memory(in_use: int = 0, root: str = "/") -> Memory | None:
    """Returns the memory available to a job: the host's free memory, or a lower cgroup limit.

    The result is None if no amount is known, as on systems other than Linux. This program and its
    other workers free the bytes `in_use` before the job begins. `root` has `proc` and `sys`.
    """
    limits = host.cgroup_settings("memory", "memory.limit_in_bytes", "memory.max", root)
    # "max" means no limit; cgroup version 1 has a huge number instead.
    amounts = [Memory(int(n), f"allowed by {file}") for file, n in limits if n.isdecimal()]
    text = host.read(os.path.join(root, "proc/meminfo"))
    if kilobytes := re.search(r"^MemAvailable: +(\d+) kB$", text, re.MULTILINE):
        amounts.append(Memory(int(kilobytes[1]) * 1024 + in_use, "available on this host"))
    return min(amounts, default=None)
