"""The nodes and tensors of a graph, and the types that they can have."""

from __future__ import annotations

import collections
import functools
from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

# TensorFlow has no public function for this.
from tensorflow.python.framework import kernels

FLOAT32 = tf.float32.as_datatype_enum
_NOT_TENSORS = (tf.resource.as_datatype_enum, tf.variant.as_datatype_enum)
# These nodes take the type of a value from elsewhere, or exist to give a value a type.
_HOLD_VALUES = ("Cast", "Const", "Placeholder", "PlaceholderV2", "PlaceholderWithDefault")


class Nodes:
    """The nodes of a graph, and the references between them.

    Functions, such as the branches of a condition, are not part of it.

    Attributes:
      by_name: the nodes in the protocol buffer, which methods change in place.
      op_defs: descriptions of op types; calls of functions have none.
    """

    def __init__(self, graph_def: tf.GraphDef):
        """Takes a graph, to which `add_cast` adds nodes."""
        self._node_defs = graph_def.node
        self.by_name = {node.name: node for node in graph_def.node}
        with tf.Graph().as_default():
            meta_graph = tf.train.export_meta_graph(graph_def=graph_def, collection_list=[])
        self.op_defs = {op.name: op for op in meta_graph.meta_info_def.stripped_op_list.op}

    @functools.cached_property
    def _reads(self) -> dict[str, list[str]]:
        """The reads of each variable without control dependencies, in order, by its handle."""
        reads = collections.defaultdict(list)
        for name, node in self.by_name.items():
            if node.op == "ReadVariableOp" and len(node.input) == 1:
                reads[node.input[0]].append(name)
        return reads

    def node_of(self, reference: str) -> tf.NodeDef:
        """Returns the node that produces a tensor, `node:1` or `node`."""
        return self.by_name[reference.partition(":")[0]]

    def first_read(self, reference: str) -> str:
        """Returns the first read of a variable if `reference` is any read without dependencies.

        Layers that share a variable read it separately; with this, they share its cast. Returns
        other references unchanged.
        """
        node = self.by_name.get(reference)
        reads = self._reads.get(node.input[0], []) if node and node.op == "ReadVariableOp" else []
        return reads[0] if reference in reads else reference

    def add_cast(self, reference: str, source_type: tf.DType, dtype: tf.DType) -> str:
        """Adds a cast from a type to another and returns the reference to its result."""
        name = f"{reference.replace(':', '_')}/to_{dtype.name}"
        while name in self.by_name:
            name += "_"
        node = self._node_defs.add(name=name, op="Cast", input=[reference])
        node.device = self.node_of(reference).device
        node.attr["SrcT"].type = source_type.as_datatype_enum
        node.attr["DstT"].type = dtype.as_datatype_enum
        self.by_name[name] = node
        return name


def float32_attributes(node: tf.NodeDef, op_def: Any) -> tuple[str, ...]:
    """Returns the type attributes of a node that make inputs or outputs float32.

    The result is empty for ops that read or write variables, or only hold a value.
    """
    args = (*op_def.input_arg, *op_def.output_arg)
    if node.op in _HOLD_VALUES or any(arg.is_ref or arg.type in _NOT_TENSORS for arg in args):
        return ()
    used = {arg.type_attr for arg in args}
    attributes = [attr for attr in op_def.attr if attr.name in used]
    types = {attr.name: node.attr.get(attr.name, attr.default_value).type for attr in attributes}
    return tuple(name for name, number in types.items() if number == FLOAT32)


def have_type(args: Sequence[Any], node: tf.NodeDef, attributes: Sequence[str]) -> list[bool]:
    """Returns for each tensor of inputs or outputs whether one of the attributes is its type."""
    typed = []
    for arg in args:
        count = node.attr[arg.number_attr].i if arg.number_attr else 1
        if arg.type_list_attr:
            count = len(node.attr[arg.type_list_attr].list.type)
        typed += [arg.type_attr in attributes] * count
    return typed


def convertible_attributes(
    node: tf.NodeDef, op_def: Any, dtype: tf.DType, device: str
) -> tuple[str, ...]:
    """Returns the float32 type attributes of a node that can be `dtype` on a device; often one.

    On the "cpu" or "gpu", TensorFlow must have a kernel for them; it does not know those of "hpu".
    """
    number = dtype.as_datatype_enum
    allowed = {
        attr.name: attr.allowed_values.list.type or [number]
        for attr in op_def.attr
        if attr.type == "type"
    }
    names = tuple(n for n in float32_attributes(node, op_def) if number in allowed[n])
    if not names or device == "hpu":
        return names
    values = {name: [*value.list.type] or [value.type] for name, value in node.attr.items()}
    values |= dict.fromkeys(names, [number])
    for limits in _kernels_of(node.op, device):
        if all(types.issuperset(values[name]) for name, types in limits.items()):
            return names
    return ()


@functools.cache
def _kernels_of(op: str, device: str) -> list[dict[str, set[int]]]:
    """Returns the types that each kernel of an op on a device allows, by the attribute's name.

    Asking TensorFlow takes milliseconds, and a graph has thousands of nodes of a few ops.
    """
    # A default kernel is for every device without its own.
    devices = device.upper(), "DEFAULT"
    return [
        {limit.name: {*limit.allowed_values.list.type} for limit in kernel.constraint}
        for kernel in kernels.get_registered_kernels_for_op(op).kernel
        if kernel.device_type in devices and not kernel.label
    ]
