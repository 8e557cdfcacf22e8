"""Copies graphs with their node names, variables and collections."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf2
import tensorflow.compat.v1 as tf


def copy_of(graph: tf.Graph) -> tf.Graph:
    """Returns a graph with the same nodes, collections and seed.

    New nodes in the copy get the same names and random seeds that they would get in `graph`.
    """
    copy = tf.Graph()
    with copy.as_default():
        if graph.seed is not None:
            tf.set_random_seed(graph.seed)
        tf.import_graph_def(graph.as_graph_def(), name="")
        _add_to_collections(graph, {})
    return copy


def add_new(graph_def: tf.GraphDef, built: tf.Graph, names: Mapping[str, str]) -> None:
    """Adds the new nodes and collections of a copy to the current graph.

    Args:
      graph_def: the nodes of the copy. Those that the current graph lacks may have been changed.
      built: the copy, with its collections.
      names: names of tensors in collections to replace, with the names of their replacements.
    """
    target = tf.get_default_graph()
    nodes, functions = names_in(target.as_graph_def())
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


def names_in(graph_def: tf.GraphDef) -> tuple[set[str], set[str]]:
    """Returns the names of the nodes, and those of the functions."""
    functions = {function.signature.name for function in graph_def.library.function}
    return {node.name for node in graph_def.node}, functions


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
                target.add_to_collection(key, counterpart(item, target, names))
                continue
            if item.name not in variables:
                variables[item.name] = type(item).from_proto(item.to_proto())
            target.add_to_collection(key, variables[item.name])


def _variables(graph: tf.Graph) -> dict[str, tf.Variable]:
    """Returns the variables in a graph's collections, by name."""
    keys = graph.get_all_collection_keys()
    items = [item for key in keys for item in graph.get_collection(key)]
    return {item.name: item for item in items if isinstance(item, tf2.Variable)}


def counterpart(structure: Any, graph: tf.Graph, names: Mapping[str, str] | None = None) -> Any:
    """Returns a structure with the tensors, operations and variables of the same names in `graph`.

    Args:
      structure: nested structure; other items in it stay unchanged.
      names: names of tensors to replace, with the names of their replacements.
    """

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
