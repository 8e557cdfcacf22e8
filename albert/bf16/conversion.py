"""A model in bfloat16 and float32, as a configuration of Habana's format tells, on CPU and GPU.

On a Gaudi the bridge reads the configuration itself. Elsewhere the graph that a `model_fn` builds
is rewritten as `albert.bf16.rules` decides, and imported into the estimator's. Variables stay
float32, names and shapes stay what they are, so that checkpoints fit runs with and without a
configuration. bfloat16 has the range of float32: there is no loss scaling.
"""

from __future__ import annotations

import copy
import functools
import re
import weakref
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from albert.bf16.configuration import Bf16Config, NodePattern
from albert.bf16.graph_copy import add_new, copy_of, counterpart
from albert.bf16.graph_defs import BFLOAT16, Body, bodies
from albert.bf16.rules import ConversionPlan, borders, plan
from albert.core import estimators

# The nodes of GELU in an encoder, see `albert.devices.ops`. Where they are of the type of the
# product before them and no gradient needs what is between, TensorFlow makes one operation of all,
# which computes in float32 inside.
_GELU = tuple(
    NodePattern(re.compile(r".*/intermediate/[^/]*"), op) for op in ("AddV2", "Mul", "Tanh")
)
# Of an EstimatorSpec.
_PARTS = ("predictions", "loss", "train_op", "eval_metric_ops")
_HOOKS = ("training_hooks", "training_chief_hooks", "evaluation_hooks", "prediction_hooks")
# By the graph that a converted one was imported into: the graph that it was built in, which keeps
# what nodes call in Python.
_built: weakref.WeakKeyDictionary[tf.Graph, list[tf.Graph]] = weakref.WeakKeyDictionary()


def rewrite(graph_def: tf.GraphDef, wanted: ConversionPlan) -> dict[str, str]:
    """Converts the nodes of a graph, in place, and puts casts between the types.

    Args:
      graph_def: what the plan was made for.
      wanted: the plan.

    Returns:
      The plan's outputs, and the names of the float32 tensors that are now to be taken for them.
    """
    outputs = {}
    for body in bodies(graph_def, wanted.outputs):
        converted = {
            decision.node: decision.attributes
            for decision in wanted.decisions
            if decision.function == body.function and decision.is_converted
        }
        _insert_casts(body, converted)
        for name, attributes in converted.items():
            for attribute in attributes:
                body.nodes[name].attr[attribute].type = BFLOAT16
        if not body.function:
            outputs = {name: _tensor_name(tensor) for name, tensor in body.results.items()}
    return outputs


def _insert_casts(body: Body, converted: Mapping[str, tuple[str, ...]]) -> None:
    """Puts casts where types differ once the nodes are converted, one for all that need it."""
    casts = {}
    for node, place, tensor, dtype in list(borders(body, converted)):
        if (tensor, dtype) not in casts:
            casts[tensor, dtype] = body.add_cast(tensor, dtype)
        if isinstance(place, str):
            body.results[place] = casts[tensor, dtype]
        else:
            body.nodes[node].input[place] = casts[tensor, dtype]


def _tensor_name(reference: str) -> str:
    return reference if ":" in reference else f"{reference}:0"


def convert(model_fn: Callable, config: Bf16Config, device: str = "cpu") -> Callable:
    """Returns a `model_fn` that builds the same model with some operations in bfloat16.

    The model is built in a graph of its own, a copy of the estimator's, so that all names and
    random seeds are those of the model in float32; what is new in it is rewritten and imported
    into the estimator's graph. Scaffolds of the `model_fn` are not supported, nor hooks but those
    that carry parts of the graph.

    Args:
      model_fn: of an estimator, with arguments (features, labels, mode, params).
      config: which operations to convert.
      device: "cpu" or "gpu", which is to run the model.
    """
    logged = set()

    def converted_model_fn(features, labels, mode, params):
        target = tf.get_default_graph()
        planned = plan_model(model_fn, features, labels, mode, params, config, device)
        built, spec = planned.graph, planned.spec
        if mode not in logged:
            tf.logging.info("%s", planned.plan.summary())
            logged.add(mode)
        graph_def = built.as_graph_def()
        names = rewrite(graph_def, planned.plan)
        add_new(graph_def, built, names)
        _built.setdefault(target, []).append(built)
        fields, carried = counterpart(_parts(spec), target, names)
        return estimators.EstimatorSpec(
            mode,
            **fields,
            training_hooks=[estimators.GraphParts(parts) for parts in carried],
            export_outputs=_counterparts_of_exports(spec, target, names),
        )

    return converted_model_fn


class PlannedModel(NamedTuple):
    """A model in float32, in a graph of its own, and what is to be converted of it."""

    graph: tf.Graph
    spec: estimators.EstimatorSpec
    plan: ConversionPlan


def plan_model(
    model_fn: Callable,
    features: Any,
    labels: Any,
    mode: str,
    params: Any,
    config: Bf16Config,
    device: str,
) -> PlannedModel:
    """Builds a model in a copy of the current graph, and plans its conversion.

    Args:
      model_fn, config, device: see `convert`; the device may be "hpu", too.
      features, labels, mode, params: the `model_fn`'s arguments, of the current graph.
    """
    current = tf.get_default_graph()
    built = copy_of(current)
    with built.as_default():
        here = functools.partial(counterpart, graph=built)
        spec = model_fn(here(features), here(labels), mode, params)
    _check(spec)
    if mode == estimators.ModeKeys.PREDICT and device == "cpu" and "BiasAdd" in config.allowlist:
        config = config._replace(conditional_exceptions=_GELU)
    others, outputs = _names(current.as_graph_def()), _outputs(spec, built)
    return PlannedModel(built, spec, plan(built.as_graph_def(), config, device, others, outputs))


def _check(spec: estimators.EstimatorSpec) -> None:
    """Raises a `ValueError` if a part of a specification would be lost."""
    for field in _HOOKS:
        if not all(isinstance(hook, estimators.GraphParts) for hook in getattr(spec, field)):
            raise ValueError(f"a model_fn with {field} cannot be converted to bfloat16")
    # One that says nothing is always there.
    if any(value is not None for value in vars(spec.scaffold).values()):
        raise ValueError("a model_fn with scaffold cannot be converted to bfloat16")


def _parts(spec: estimators.EstimatorSpec) -> tuple[dict[str, Any], list]:
    """Returns the parts of the graph in a specification: its fields, and those it carries."""
    fields = {field: getattr(spec, field) for field in _PARTS}
    return fields, [hook.parts for hook in spec.training_hooks]


def _counterparts_of_exports(
    spec: estimators.EstimatorSpec, graph: tf.Graph, names: Mapping[str, str]
) -> dict | None:
    """Returns the specification's outputs for export, with tensors of another graph."""
    outputs = {key: copy.copy(output) for key, output in (spec.export_outputs or {}).items()}
    for output in outputs.values():
        vars(output).update(counterpart(vars(output), graph, names))
    return outputs or None


def _names(graph_def: tf.GraphDef) -> set[str]:
    """Returns the names of all nodes and functions."""
    functions = {function.signature.name for function in graph_def.library.function}
    return functions | {node.name for node in graph_def.node}


def _outputs(spec: estimators.EstimatorSpec, graph: tf.Graph) -> list[str]:
    """Returns the names of the tensors that an estimator or a hook can see."""
    collected = [graph.get_collection(key) for key in graph.get_all_collection_keys()]
    exports = [vars(output) for output in (spec.export_outputs or {}).values()]
    items = tf.nest.flatten([_parts(spec), exports, collected])
    return sorted({item.name for item in items if isinstance(item, tf.Tensor)})
