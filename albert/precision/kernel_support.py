"""Checks whether a device has kernels for operations in bfloat16 or float16."""

from __future__ import annotations

import functools
from typing import Any

import tensorflow.compat.v1 as tf

from albert.devices.device import session_config
from albert.precision.graph_defs import count_of, float32_attributes

_UNFED = "You must feed a value for placeholder"


def allowed_attributes(node: tf.NodeDef, op_def: Any, dtype: tf.DType) -> tuple[str, ...]:
    """Returns the float32 type attributes of a node that its op type allows to be `dtype`."""
    number = dtype.as_datatype_enum
    allowed = {
        attr.name: attr.allowed_values.list.type or [number]
        for attr in op_def.attr
        if attr.type == "type"
    }
    return tuple(n for n in float32_attributes(node, op_def) if number in allowed[n])


def convertible_attributes(
    node: tf.NodeDef, op_def: Any, dtype: tf.DType, device: str
) -> tuple[str, ...]:
    """Returns the float32 type attributes of a node that can be `dtype` on a device; often one.

    The check creates a kernel on the "cpu" or "gpu"; for "hpu" it only reads the description.
    """
    names = allowed_attributes(node, op_def, dtype)
    if not names or device == "hpu":
        return names
    probe = tf.NodeDef(name="probe", op=node.op, device=f"/device:{device.upper()}:0")
    for name, value in node.attr.items():
        if not name.startswith("_"):
            probe.attr[name].CopyFrom(value)
    for name in names:
        probe.attr[name].type = dtype.as_datatype_enum
    types = tuple(_input_types(probe, op_def))
    return names if _has_kernel(probe.SerializeToString(deterministic=True), types) else ()


def _input_types(node: tf.NodeDef, op_def: Any) -> list[int]:
    """Returns the type of each input tensor of a node."""
    types: list[int] = []
    for arg in op_def.input_arg:
        one = [arg.type or node.attr[arg.type_attr].type] * count_of(arg, node)
        types += node.attr[arg.type_list_attr].list.type if arg.type_list_attr else one
    return types


@functools.cache
def _has_kernel(serialized: bytes, input_types: tuple[int, ...]) -> bool:
    """Returns whether TensorFlow can place a node and create its kernel, by running it unfed."""
    graph_def = tf.GraphDef()
    node = graph_def.node.add()
    node.ParseFromString(serialized)
    for number, dtype in enumerate(input_types):
        placeholder = graph_def.node.add(name=f"input_{number}", op="Placeholder")
        placeholder.attr["dtype"].type = dtype
        node.input.append(placeholder.name)
    config = session_config()
    config.allow_soft_placement = False
    with tf.Graph().as_default() as graph:
        try:
            tf.import_graph_def(graph_def, name="")
            with tf.Session(config=config) as session:
                session.run(graph.get_operation_by_name(node.name))
        except (ValueError, tf.errors.OpError) as e:
            # TensorFlow creates kernels first, so an error about inputs shows that they exist.
            return _UNFED in str(e)
    return True
