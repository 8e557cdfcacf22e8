"""Converts models to mixed precision on CPU and GPU, with Habana's configurations.

On Gaudi, the bridge reads the configuration itself. On other devices, this module rewrites the
nodes of a `model_fn` by the rules of `albert.precision.rules`, and imports them next to its own.
Variables stay float32, so checkpoints work with and without a configuration. The low precision is
bfloat16, which has the range of float32, or float16, which needs a loss scale
(`albert.optimizers.loss_scale`).

`configuration.py` reads the list of a precision, and `rules.plan` decides about each node.
`convert` wraps a `model_fn`: it builds the model, rewrites its nodes by the plan, and imports them.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any

import tensorflow.compat.v1 as tf

from albert.core import estimators
from albert.precision.configuration import PrecisionConfig
from albert.precision.rules import Cast, ConversionPlan, borders, plan

# Fields of an EstimatorSpec.
_PARTS = ("predictions", "loss", "train_op", "eval_metric_ops")


def rewrite(planned: ConversionPlan) -> dict[str, str]:
    """Converts the planned graph in place; returns the float32 outputs by their names before."""
    nodes, converted, low = planned.nodes, planned.converted, planned.dtype
    results, casts = dict(planned.results), dict[Cast, str]()
    # Nodes share a tensor's cast.
    for node, port, cast in list(borders(nodes, results, converted, low)):
        if cast not in casts:
            source = tf.float32 if cast.dtype == low else low
            casts[cast] = nodes.add_cast(cast.tensor, source, cast.dtype)
        if isinstance(port, str):
            results[port] = casts[cast]
        else:
            nodes.by_name[node].input[port] = casts[cast]
    for name, attributes in converted.items():
        for attribute in attributes:
            nodes.by_name[name].attr[attribute].type = low.as_datatype_enum
    return {name: t if ":" in t else f"{t}:0" for name, t in results.items()}


def convert(model_fn: Callable, config: PrecisionConfig | None, device: str = "cpu") -> Callable:
    """Returns a `model_fn` that builds the same model with some operations in low precision.

    It is unchanged without a configuration, and on the "hpu", where the bridge converts the graph.
    Otherwise it builds the float32 model, and imports its converted nodes under the name of their
    type. So the model's variables and random seeds are those in float32, and its other nodes are
    not computed. Of what the `model_fn` returns, a scaffold, and hooks other than
    `estimators.GraphParts` are lost.
    """
    if config is None or device == "hpu":
        return model_fn
    logged = set()

    def converted_model_fn(features, labels, mode, params):
        spec, before, planned = plan_model(model_fn, features, labels, mode, params, config, device)
        if mode not in logged:
            tf.logging.info("%s", planned.summary())
            logged.add(mode)
        fields, carried, exported = _imported(planned, before, _parts(spec))
        return estimators.EstimatorSpec(
            mode,
            **fields,
            training_hooks=[estimators.GraphParts(parts) for parts in carried],
            export_outputs={key: estimators.PredictOutput(exported[key]) for key in exported},
        )

    return converted_model_fn


def plan_model(
    model_fn: Callable,
    features: Any,
    labels: Any,
    mode: str,
    params: Any,
    config: PrecisionConfig,
    device: str,
) -> tuple[estimators.EstimatorSpec, set[str], ConversionPlan]:
    """Builds a model in the current graph, and plans its conversion; see `convert`.

    Returns its specification, the names of the nodes before it, and the plan. The device may also
    be "hpu".
    """
    graph = tf.get_default_graph()
    before = {operation.name for operation in graph.get_operations()}
    spec = model_fn(features, labels, mode, params)
    items = tf.nest.flatten(_parts(spec))
    outputs = sorted({item.name for item in items if isinstance(item, tf.Tensor)})
    return spec, before, plan(graph.as_graph_def(), config, device, before, outputs)


def _parts(spec: estimators.EstimatorSpec) -> tuple[dict[str, Any], list, dict[str, Any]]:
    """Returns the parts of the graph in a specification: its fields, `GraphParts` and exports."""
    fields = {field: getattr(spec, field) for field in _PARTS}
    exported = {key: output.outputs for key, output in (spec.export_outputs or {}).items()}
    return fields, [hook.parts for hook in spec.training_hooks], exported


def _imported(planned: ConversionPlan, before: Container[str], parts: Any) -> Any:
    """Imports the converted nodes, except those `before` the model; returns its parts in them."""
    graph, names = tf.get_default_graph(), rewrite(planned)
    new = tf.GraphDef(versions=planned.graph_def.versions)
    for node in planned.graph_def.node:
        # Variables are shared: a copy of one might be placed on another device.
        if node.name not in before and node.op != "VarHandleOp":
            new.node.add().CopyFrom(node)
            # It may name a variable.
            new.node[-1].attr.pop("_class", None)
    there = {node.name for node in new.node}
    read = {reference for node in new.node for reference in node.input}
    inputs = {r: _tensor(r, graph) for r in sorted(read) if _node_of(r) not in there}
    items = [i for i in tf.nest.flatten(parts) if isinstance(i, (tf.Tensor, tf.Operation))]
    outputs = {item.name: names.get(item.name, item.name) for item in items}
    outputs = {name: output for name, output in outputs.items() if _node_of(output) in there}
    imported = tf.import_graph_def(new, inputs, [*outputs.values()], name=planned.dtype.name)
    converted = dict(zip(outputs, imported, strict=True))

    def find(item: Any) -> Any:
        is_node = isinstance(item, (tf.Tensor, tf.Operation))
        return converted.get(item.name, item) if is_node else item

    return tf.nest.map_structure(find, parts)


def _node_of(reference: str) -> str:
    return reference.lstrip("^").partition(":")[0]


def _tensor(reference: str, graph: tf.Graph) -> tf.Tensor:
    """Returns the tensor of a reference; for a control dependency, a tensor that depends on it."""
    if not reference.startswith("^"):
        return graph.get_tensor_by_name(reference if ":" in reference else f"{reference}:0")
    with tf.control_dependencies([graph.get_operation_by_name(reference[1:])]):
        return tf.constant(0, name=f"{reference[1:]}/is_done")
