"""Copies of graphs, and what was built in a copy brought back."""

import pytest
import tensorflow as tf2
import tensorflow.compat.v1 as tf

from runtime.bf16.graph_copy import add_new, copy_of, counterpart


@pytest.fixture
def graph():
    """A graph with a variable, a seed, a collection and a function."""
    graph = tf.Graph()
    with graph.as_default():
        tf.set_random_seed(5)
        counter = tf.get_variable("counter", [], initializer=tf.zeros_initializer())
        x = tf.placeholder(tf.float32, [2], "x")
        tf.group(counter.assign_add(1.0), name="count")
        y = tf.cond(x[0] > 0, lambda: x, lambda: -x)
        tf.add_to_collection("mine", tf.identity(y, "y"))
        tf.add_to_collection("mine", "text")
    return graph


def test_copy_has_nodes_collections_and_seeds(graph):
    copy = copy_of(graph)
    assert copy.as_graph_def().node == graph.as_graph_def().node
    with copy.as_default():
        (variable,) = tf.global_variables()
    assert variable.name == "counter:0" and variable.graph is copy and variable.trainable
    tensor, text = copy.get_collection("mine")
    assert tensor.graph is copy and tensor.name == "y:0" and text == "text"
    ops = []
    for g in (graph, copy):
        with g.as_default():
            tf.random_uniform([3], name="random")
        ops.append(g.get_operation_by_name("random/RandomUniform"))
    assert ops[0].get_attr("seed2") == ops[1].get_attr("seed2")
    assert [op.get_attr("seed") for op in ops] == [5, 5]


def test_new_nodes_take_tensors_of_the_graph(graph):
    """Among them a function, and a node that waits for an operation without outputs."""
    copy = copy_of(graph)
    with copy.as_default():
        x = counterpart(graph.get_tensor_by_name("x:0"), copy)
        with tf.control_dependencies([copy.get_operation_by_name("count")]):
            tf.identity(tf.cond(x[1] > 0, lambda: x * 2, lambda: x), "z")
    with graph.as_default():
        add_new(copy.as_graph_def(), copy, {})
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            assert session.run("z:0", {"x:0": [1, 2]}).tolist() == [2, 4]
            assert session.run("z:0", {"x:0": [1, -2]}).tolist() == [1, -2]
            assert session.run(tf.global_variables()[0]) == 2


def test_new_items_of_collections(graph):
    copy = copy_of(graph)
    with copy.as_default():
        new = tf.get_variable("new", [3], trainable=False, use_resource=True)
        tf.add_to_collection("other", new)
        for name in ("a", "b"):
            tf.add_to_collection("mine", tf.ones([], name=name))
    with graph.as_default():
        add_new(copy.as_graph_def(), copy, {"a:0": "b:0"})
        counter, variable = tf.global_variables()
        assert tf.trainable_variables() == [counter]
    assert isinstance(variable, tf2.Variable) and variable.graph is graph
    assert (variable.name, variable.shape.as_list(), variable.trainable) == ("new:0", [3], False)
    assert graph.get_collection("other") == [variable]
    names = [item if isinstance(item, str) else item.name for item in graph.get_collection("mine")]
    assert names == ["y:0", "text", "b:0", "b:0"]
