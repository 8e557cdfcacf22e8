"""Converts models to mixed precision on CPU and GPU, with Habana's configurations.

On Gaudi, the bridge reads the configuration itself. On other devices, this module rewrites the
graph of a `model_fn` by the rules of `albert.precision.rules`, and imports it into the estimator's
graph. Variables stay float32 and keep their names and shapes, so checkpoints work with and without
a configuration. The low precision is bfloat16, which has the range of float32, or float16, which
needs a loss scale (`albert.optimizers.loss_scale`).

`configuration.py` reads the list of a precision, and `rules.plan` decides about each node.
`convert` wraps a `model_fn`: it builds the graph apart, rewrites it by the plan, and imports it.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf2
import tensorflow.compat.v1 as tf

from albert.core import estimators
from albert.precision.configuration import PrecisionConfig
from albert.precision.rules import Cast, ConversionPlan, borders, plan

# Fields of an EstimatorSpec.
_PARTS = ("predictions", "loss", "train_op", "eval_metric_ops")
# The graphs that models were built in, by the graph that the converted one was imported into. They
# keep the Python functions that nodes call alive.
_built: weakref.WeakKeyDictionary[tf.Graph, list[tf.Graph]] = weakref.WeakKeyDictionary()


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

    The model is built in a copy of the estimator's graph, so that all names and random seeds are
    those of the float32 model. Its new nodes are rewritten and imported into the estimator's graph.
    Of what the `model_fn` returns, a scaffold, and hooks other than `estimators.GraphParts` are
    lost.
    """
    if config is None or device == "hpu":
        return model_fn
    logged = set()

    def converted_model_fn(features, labels, mode, params):
        target = tf.get_default_graph()
        built, spec, planned = plan_model(model_fn, features, labels, mode, params, config, device)
        if mode not in logged:
            tf.logging.info("%s", planned.summary())
            logged.add(mode)
        names = rewrite(planned)
        _add_new(planned.graph_def, built, names)
        _built.setdefault(target, []).append(built)
        fields, carried, exported = _counterpart(_parts(spec), target, names)
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
) -> tuple[tf.Graph, estimators.EstimatorSpec, ConversionPlan]:
    """Builds a model in a copy of the current graph, and plans its conversion; see `convert`.

    Returns the copy, the model's specification there, and the plan. The features and labels are
    from the current graph. The device may also be "hpu".
    """
    current = tf.get_default_graph()
    built = _copy_of(current)
    with built.as_default():
        here = functools.partial(_counterpart, graph=built)
        spec = model_fn(here(features), here(labels), mode, params)
    others = {node.name for node in current.as_graph_def().node}
    # The tensors that an estimator or a hook can access.
    collected = [built.get_collection(key) for key in built.get_all_collection_keys()]
    items = tf.nest.flatten([_parts(spec), collected])
    outputs = sorted({item.name for item in items if isinstance(item, tf.Tensor)})
    return built, spec, plan(built.as_graph_def(), config, device, others, outputs)


def _parts(spec: estimators.EstimatorSpec) -> tuple[dict[str, Any], list, dict[str, Any]]:
    """Returns the parts of the graph in a specification: its fields, `GraphParts` and exports."""
    fields = {field: getattr(spec, field) for field in _PARTS}
    exported = {key: output.outputs for key, output in (spec.export_outputs or {}).items()}
    return fields, [hook.parts for hook in spec.training_hooks], exported


def _copy_of(graph: tf.Graph) -> tf.Graph:
    """Returns a copy, in which new nodes get the names and random seeds that `graph` would give."""
    copy = tf.Graph()
    with copy.as_default():
        if graph.seed is not None:
            tf.set_random_seed(graph.seed)
        tf.import_graph_def(graph.as_graph_def(), name="")
        _add_to_collections(graph, {})
    return copy


def _add_new(graph_def: tf.GraphDef, built: tf.Graph, names: Mapping[str, str]) -> None:
    """Adds the new nodes and collections of a copy to the current graph; `names` replaces names."""
    target = tf.get_default_graph()
    existing = target.as_graph_def()
    nodes = {node.name for node in existing.node}
    functions = {function.signature.name for function in existing.library.function}
    new = tf.GraphDef(versions=graph_def.versions)
    new.node.extend(node for node in graph_def.node if node.name not in nodes)
    library = graph_def.library
    new.library.function.extend(f for f in library.function if f.signature.name not in functions)
    new.library.gradient.extend(library.gradient)
    inputs = {
        reference
        for node in new.node
        for reference in node.input
        if reference.lstrip("^").split(":")[0] in nodes
    }
    tf.import_graph_def(new, {ref: _tensor(ref, target) for ref in sorted(inputs)}, name="")
    _add_to_collections(built, names)


def _tensor(reference: str, graph: tf.Graph) -> tf.Tensor:
    """Returns the tensor of a reference; for a control dependency, a tensor that depends on it."""
    if not reference.startswith("^"):
        return graph.get_tensor_by_name(reference if ":" in reference else f"{reference}:0")
    with tf.control_dependencies([graph.get_operation_by_name(reference[1:])]):
        return tf.constant(0, name=f"{reference[1:]}/is_done")


def _add_to_collections(source: tf.Graph, names: Mapping[str, str]) -> None:
    """Extends the current graph's collections by the items that those of its copy `source` add."""
    target = tf.get_default_graph()
    variables = _variables(target)
    for key in source.get_all_collection_keys():
        for item in source.get_collection(key)[len(target.get_collection(key)) :]:
            if not isinstance(item, tf2.Variable):
                target.add_to_collection(key, _counterpart(item, target, names))
                continue
            if item.name not in variables:
                variables[item.name] = type(item).from_proto(item.to_proto())
            target.add_to_collection(key, variables[item.name])


def _variables(graph: tf.Graph) -> dict[str, tf.Variable]:
    """Returns the variables in a graph's collections, by name."""
    keys = graph.get_all_collection_keys()
    items = [item for key in keys for item in graph.get_collection(key)]
    return {item.name: item for item in items if isinstance(item, tf2.Variable)}


def _counterpart(structure: Any, graph: tf.Graph, names: Mapping[str, str] | None = None) -> Any:
    """Returns a structure with the items of the same names in `graph`; `names` replaces names."""

    def find(item: Any) -> Any:
        if isinstance(item, (tf.Tensor, tf.Operation)):
            return graph.as_graph_element((names or {}).get(item.name, item.name))
        return item

    def find_whole(item: Any) -> Any:
        # Handled first, because a variable is composite: rebuilt from its parts, it would lack its
        # initial value.
        if isinstance(item, tf2.Variable):
            return _variables(graph)[item.name]
        return tf.nest.map_structure(find, item, expand_composites=True)

    return tf.nest.map_structure(find_whole, structure)
