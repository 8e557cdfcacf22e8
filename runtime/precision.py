"""A model in bfloat16 and float32, as a configuration of Habana's format tells, on CPU and GPU.

On a Gaudi the bridge reads the configuration itself. Elsewhere the graph that a `model_fn` builds
is rewritten as `runtime.bf16_plan` decides, and imported into the estimator's. Variables stay
float32, names and shapes stay what they are, so that checkpoints fit runs with and without a
configuration. bfloat16 has the range of float32: there is no loss scaling.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

import tensorflow.compat.v1 as tf

from runtime.bf16_config import Bf16Config
from runtime.bf16_plan import Plan, borders, plan
from runtime.graph_copy import add_new, copy_of, counterpart
from runtime.graph_defs import BFLOAT16, Body, bodies

# Of an EstimatorSpec.
_PARTS = ("predictions", "loss", "train_op", "eval_metric_ops")
_HOOKS = ("training_hooks", "training_chief_hooks", "evaluation_hooks", "prediction_hooks")


def rewrite(graph_def: tf.GraphDef, wanted: Plan) -> dict[str, str]:
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
        takers = body.nodes[node].input if node else body.results
        takers[place] = casts[tensor, dtype]


def _tensor_name(reference: str) -> str:
    return reference if ":" in reference else f"{reference}:0"


def convert(model_fn: Callable, config: Bf16Config, device: str = "cpu") -> Callable:
    """A `model_fn` that builds the same model with some operations in bfloat16.

    The model is built in a graph of its own, a copy of the estimator's, so that all names and
    random seeds are those of the model in float32; what is new in it is rewritten and imported
    into the estimator's graph. Hooks and scaffolds of the `model_fn` are not supported.

    Args:
      model_fn: of an estimator, with arguments (features, labels, mode, params).
      config: which operations to convert.
      device: "cpu" or "gpu", which is to run the model.
    """
    logged = set()

    def converted_model_fn(features, labels, mode, params):
        target = tf.get_default_graph()
        built = copy_of(target)
        with built.as_default():
            here = functools.partial(counterpart, graph=built)
            spec = model_fn(here(features), here(labels), mode, params)
        _check(spec)
        graph_def = built.as_graph_def()
        others, outputs = _names(target.as_graph_def()), _outputs(spec, built)
        wanted = plan(graph_def, config, device, others, outputs)
        if mode not in logged:
            tf.logging.info("%s", wanted.summary())
            logged.add(mode)
        names = rewrite(graph_def, wanted)
        add_new(graph_def, built, names)
        parts = {field: getattr(spec, field) for field in _PARTS}
        return tf.estimator.EstimatorSpec(mode, **counterpart(parts, target, names))

    return converted_model_fn


def _check(spec: tf.estimator.EstimatorSpec) -> None:
    """Raises a `ValueError` if a part of a specification would be lost."""
    for field in _HOOKS:
        if getattr(spec, field):
            raise ValueError(f"a model_fn with {field} cannot be converted to bfloat16")


def _names(graph_def: tf.GraphDef) -> set[str]:
    """The names of all nodes and functions."""
    functions = {function.signature.name for function in graph_def.library.function}
    return functions | {node.name for node in graph_def.node}


def _outputs(spec: tf.estimator.EstimatorSpec, graph: tf.Graph) -> list[str]:
    """The names of the tensors that an estimator or a hook can see."""
    collected = [graph.get_collection(key) for key in graph.get_all_collection_keys()]
    parts = [getattr(spec, field) for field in _PARTS]
    items = tf.nest.flatten([parts, collected])
    return sorted({item.name for item in items if isinstance(item, tf.Tensor)})
