"""Converts models to mixed precision on CPU and GPU, with Habana's configurations.

On Gaudi, the bridge reads the configuration itself. On other devices, this module rewrites the
graph of a `model_fn` by the rules of `albert.precision.rules`, and imports it into the estimator's
graph. Variables stay float32 and keep their names and shapes, so checkpoints work with and without
a configuration. The low precision is bfloat16, which has the range of float32, or float16, which
needs a loss scale (`albert.optimizers.loss_scale`).
"""

from __future__ import annotations

import functools
import re
import weakref
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from albert.core import estimators
from albert.precision.configuration import NodePattern, PrecisionConfig
from albert.precision.graph_copy import add_new, copy_of, counterpart, names_in
from albert.precision.graph_defs import Body, bodies
from albert.precision.rules import ConversionPlan, borders, plan

# The nodes of GELU in an encoder, see `albert.devices.ops`. If they have the type of the preceding
# product, and no gradient needs the intermediate values, TensorFlow fuses all of them into one
# operation, which computes in float32 internally.
_GELU = tuple(
    NodePattern(re.compile(r".*/intermediate/[^/]*"), op) for op in ("AddV2", "Mul", "Tanh")
)
# Fields of an EstimatorSpec.
_PARTS = ("predictions", "loss", "train_op", "eval_metric_ops")
# The graphs that models were built in, by the graph that the converted one was imported into. They
# keep the Python functions that nodes call alive.
_built: weakref.WeakKeyDictionary[tf.Graph, list[tf.Graph]] = weakref.WeakKeyDictionary()


def rewrite(graph_def: tf.GraphDef, planned: ConversionPlan) -> dict[str, str]:
    """Converts a planned graph in place; returns the float32 outputs by their names in the plan."""
    outputs = {}
    for body in bodies(graph_def, planned.outputs):
        converted = {
            decision.node: decision.attributes
            for decision in planned.decisions
            if decision.function == body.function and decision.is_converted
        }
        _insert_casts(body, converted, planned.dtype)
        for name, attributes in converted.items():
            for attribute in attributes:
                body.nodes[name].attr[attribute].type = planned.dtype.as_datatype_enum
        if not body.function:
            outputs = {name: _tensor_name(tensor) for name, tensor in body.results.items()}
    return outputs


def _insert_casts(body: Body, converted: Mapping[str, tuple[str, ...]], low: tf.DType) -> None:
    """Inserts casts where types differ after the conversion; nodes share a tensor's cast."""
    casts = {}
    for node, port, tensor, dtype in list(borders(body, converted, low)):
        if (tensor, dtype) not in casts:
            source = tf.float32 if dtype == low else low
            casts[tensor, dtype] = body.add_cast(tensor, source, dtype)
        if isinstance(port, str):
            body.results[port] = casts[tensor, dtype]
        else:
            body.nodes[node].input[port] = casts[tensor, dtype]


def _tensor_name(reference: str) -> str:
    return reference if ":" in reference else f"{reference}:0"


def convert(model_fn: Callable, config: PrecisionConfig, device: str = "cpu") -> Callable:
    """Returns a `model_fn` that builds the same model with some operations in low precision.

    The model is built in a copy of the estimator's graph, so that all names and random seeds are
    those of the float32 model. Its new nodes are rewritten and imported into the estimator's graph.
    Of what the `model_fn` returns, a scaffold, export outputs, and hooks other than
    `estimators.GraphParts` are lost.

    Args:
      model_fn: an estimator's function with arguments (features, labels, mode, params).
      device: "cpu" or "gpu", the device that runs the model.
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
            mode, **fields, training_hooks=[estimators.GraphParts(parts) for parts in carried]
        )

    return converted_model_fn


class PlannedModel(NamedTuple):
    """A float32 model in a separate graph, with the plan of its conversion."""

    graph: tf.Graph
    spec: estimators.EstimatorSpec
    plan: ConversionPlan


def plan_model(
    model_fn: Callable,
    features: Any,
    labels: Any,
    mode: str,
    params: Any,
    config: PrecisionConfig,
    device: str,
) -> PlannedModel:
    """Builds a model in a copy of the current graph, and plans its conversion.

    Args:
      model_fn, config, device: see `convert`; the device may also be "hpu".
      features, labels, mode, params: arguments of the `model_fn`, from the current graph.
    """
    current = tf.get_default_graph()
    built = copy_of(current)
    with built.as_default():
        here = functools.partial(counterpart, graph=built)
        spec = model_fn(here(features), here(labels), mode, params)
    fuses = device == "cpu" and config.dtype == tf.bfloat16 and "BiasAdd" in config.allowlist
    if fuses and mode == estimators.ModeKeys.PREDICT:
        config = config._replace(conditional_exceptions=_GELU)
    others, outputs = set().union(*names_in(current.as_graph_def())), _outputs(spec, built)
    return PlannedModel(built, spec, plan(built.as_graph_def(), config, device, others, outputs))


def _parts(spec: estimators.EstimatorSpec) -> tuple[dict[str, Any], list]:
    """Returns the parts of the graph in a specification: its fields and `GraphParts`."""
    fields = {field: getattr(spec, field) for field in _PARTS}
    return fields, [hook.parts for hook in spec.training_hooks]


def _outputs(spec: estimators.EstimatorSpec, graph: tf.Graph) -> list[str]:
    """Returns the names of the tensors that an estimator or a hook can access."""
    collected = [graph.get_collection(key) for key in graph.get_all_collection_keys()]
    items = tf.nest.flatten([_parts(spec), collected])
    return sorted({item.name for item in items if isinstance(item, tf.Tensor)})
