"""Decisions on small graphs, one for each of the documented rules."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from albert.precision import configuration
from albert.precision.rules import (
    A_NEIGHBOR_STAYS,
    ALLOWED,
    CONDITIONAL,
    FORCED,
    KEPT,
    NO_KERNEL,
    NO_NEIGHBOR,
    NOT_LISTED,
    STRICT,
    plan,
)

STEPS = {
    "product": lambda x, name: tf.matmul(x, x, name=name),
    "same": tf.identity,
    "twice": lambda x, name: tf.add(x, x, name=name),
    "exp": tf.exp,
    "sqrt": tf.sqrt,
}
LISTS = {"allowlist": ["MatMul"], "conditional_list": ["Identity"]}
LISTS |= {"strict_conditional_list": ["AddV2"]}


def chain(names):
    """Returns a graph of a placeholder and steps, named after what they do."""
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [4, 4], "x")
        for name in names.split():
            x = STEPS[name.split("_")[0]](x, name)
    return graph


def plan_of(graph, **lists):
    return plan(graph.as_graph_def(), configuration.from_dict({**LISTS, **lists}, "test"))


def rules(graph, **lists):
    return {d.node: d.rule for d in plan_of(graph, **lists).decisions}


def borders(graph, **lists):
    return [(cast.tensor, cast.dtype) for cast in plan_of(graph, **lists).casts]


@pytest.mark.parametrize(
    ("names", "kept", "forced", "expected"),
    [
        ("exp product exp_1", "", "", (NOT_LISTED, ALLOWED, NOT_LISTED)),
        ("exp same product", "", "", (NOT_LISTED, CONDITIONAL, ALLOWED)),
        ("same same_1 exp", "", "", (NO_NEIGHBOR, NO_NEIGHBOR, NOT_LISTED)),
        ("product exp same", "", "", (ALLOWED, NOT_LISTED, NO_NEIGHBOR)),
        ("product twice product_1", "", "", (ALLOWED, STRICT, ALLOWED)),
        ("product twice exp", "", "", (ALLOWED, A_NEIGHBOR_STAYS, NOT_LISTED)),
        ("twice", "", "", (NO_NEIGHBOR,)),
        # Exceptions match whole names and types.
        ("product exp same", "prod.*:", "", (KEPT, NOT_LISTED, NO_NEIGHBOR)),
        ("product exp same", "", "exp:Exp", (ALLOWED, FORCED, CONDITIONAL)),
        ("product exp same", "exp:Exp", "exp:", (ALLOWED, KEPT, NO_NEIGHBOR)),
        ("product exp same", "", "exp:Log ex:Exp xp:", (ALLOWED, NOT_LISTED, NO_NEIGHBOR)),
    ],
)
def test_every_decision_has_its_reason(names, kept, forced, expected):
    pairs = [[pair.split(":") for pair in text.split()] for text in (kept, forced)]
    lists = {"non_convertible_exceptions": pairs[0], "convertible_exceptions": pairs[1]}
    assert rules(chain(names), **lists) == dict(zip(names.split(), expected, strict=True))


def test_strict_considers_only_convertible_neighbors():
    """A placeholder, a constant, a variable and integers are not convertible."""
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [4], "x")
        product = tf.matmul(tf.ones([4, 4]), tf.ones([4, 4]), name="product")
        tf.add(product, x, name="to_placeholder")
        tf.add(product, 2.0, name="to_constant")
        tf.add(product, tf.get_variable("v", [4]), name="to_variable")
        tf.reshape(product, [16], name="reshape")
    planned = rules(graph, strict_conditional_list=["AddV2", "Reshape"])
    strict = ("to_placeholder", "to_constant", "to_variable", "reshape")
    assert {planned[name] for name in strict} == {STRICT}


class TestCandidates:
    def test_an_op_without_a_kernel_stays_and_is_reported(self):
        with tf.Graph().as_default() as graph:
            x = tf.placeholder(tf.float32, [4, 4])
            tf.raw_ops.Erfinv(x=x, name="no_cpu_kernel")
            tf.raw_ops.Qr(input=x, name="type_not_allowed")
        config = configuration.from_dict({"allowlist": ["Erfinv", "Qr"]}, "test")
        planned = plan(graph.as_graph_def(), config)
        assert {d.rule for d in planned.decisions} == {NO_KERNEL}
        assert planned.summary().endswith("no bfloat16 kernel here: Erfinv, Qr")
        on_a_card = plan(graph.as_graph_def(), config, "hpu").decisions
        assert [d.rule for d in on_a_card] == [ALLOWED, NO_KERNEL]

    def test_other_types_and_stored_values_are_no_candidates(self):
        with tf.Graph().as_default() as graph:
            variable = tf.get_variable("v", [4], initializer=tf.zeros_initializer())
            variable.assign(tf.placeholder(tf.float32, [4]))
            tf.cast(tf.add(1, 2), tf.float32)
            tf.gather(variable, [0])
            tf.add(tf.constant(1.0, tf.bfloat16), tf.constant(1.0, tf.bfloat16))
        config = {"allowlist": sorted({op.type for op in graph.get_operations()})}
        planned = plan(graph.as_graph_def(), configuration.from_dict(config, "test"))
        assert not planned.decisions

    def test_legacy_variables_are_refused(self):
        """TensorFlow's own rewriting of casts can return values from before an assignment."""
        with tf.Graph().as_default() as graph:
            tf.get_variable("resource", [2, 2])
            tf.get_variable("old", [2, 2], use_resource=False)
        with pytest.raises(ValueError, match="^old is a legacy variable.*enable_resource_var"):
            rules(graph)


class TestBorders:
    def test_all_consumers_share_one_cast(self):
        with tf.Graph().as_default() as graph:
            x = tf.placeholder(tf.float32, [4, 4], "x")
            products = [tf.matmul(x, x, name=f"product_{i}") for i in range(2)]
            tf.exp(products[0]), tf.sqrt(products[0])
        assert borders(graph) == [("x", tf.bfloat16), ("product_0", tf.float32)]

    def test_layers_that_share_a_weight_share_one_cast(self):
        """Reads that wait for something, such as an update, get a separate cast."""
        with tf.Graph().as_default() as graph:
            x = tf.placeholder(tf.float32, [4, 4])
            weight = tf.get_variable("weight", [4, 4], use_resource=True)
            for _ in range(3):
                x = tf.matmul(x, weight)
            with tf.control_dependencies([weight.assign_add(x)]):
                tf.matmul(x, weight.read_value())
        casts = [name for name, _ in borders(graph, conditional_list=[])]
        # The second cast is of the value after the update.
        expected = ["weight/Read/ReadVariableOp", "Identity"]
        assert [name for name in casts if name not in ("Placeholder", "MatMul_2")] == expected

    def test_outputs_are_cast_one_by_one(self):
        graph = chain("product")
        with graph.as_default():
            parts = tf.split(graph.get_tensor_by_name("product:0"), 2)
            tf.exp(parts[1])
            tf.concat([*parts, tf.ones([1, 4])], axis=0, name="concat")
        planned = borders(graph, conditional_list=["Split", "ConcatV2"])
        assert planned == [("x", tf.bfloat16), ("split:1", tf.float32), ("ones", tf.bfloat16)]


def test_the_report_counts_operations_and_casts():
    graph_def = chain("product same exp").as_graph_def()
    planned = plan(graph_def, configuration.from_dict(LISTS, "lists.json"))
    expected = [(ALLOWED, "MatMul"), (CONDITIONAL, "Identity"), (NOT_LISTED, "Exp")]
    operations = [{"rule": rule, "op": op, "nodes": 1} for rule, op in expected]
    casts = {"bfloat16": 1, "float32": 1}
    assert planned.as_dict() == {"config": "lists.json", "operations": operations, "casts": casts}
    assert planned.summary() == (
        "bfloat16 by lists.json: 2 of 3 float32 operations, 1 casts to bfloat16, 1 back"
    )
    rows = [line.split() for line in planned.table()]
    assert rows[1:3] == [["allowlist", "MatMul", "1"], ["conditional", "Identity", "1"]]
    assert rows[-1] == ["border", "cast", "to", "float32", "1"]
    assert len({len(line) for line in planned.table()}) == 1


def test_the_rules_match_brute_force_on_random_graphs():
    """Tries all sets that obey the rules, one at a time."""
    rng = np.random.RandomState(7)
    for _ in range(30):
        with tf.Graph().as_default() as graph:
            tensors = [tf.placeholder(tf.float32, [4, 4], "x")]
            for kind in rng.choice(["product", "same", "twice", "exp"], 7):
                tensors.append(STEPS[kind](tensors[rng.randint(len(tensors))], None))
        planned = {d.node for d in plan_of(graph).decisions if d.is_converted}
        assert planned == brute_force(graph)


def brute_force(graph):
    """Returns the union of the sets of strict nodes that the rules allow, each with the least set
    of conditional nodes that it needs."""
    nodes = {op.name: op.type for op in graph.get_operations() if op.type != "Placeholder"}
    neighbors = {name: set() for name in nodes}
    for op in graph.get_operations():
        for source in {t.op.name for t in op.inputs} & set(nodes):
            neighbors[op.name].add(source)
            neighbors[source].add(op.name)
    strict = sorted(n for n, kind in nodes.items() if kind == "AddV2")
    best = set()
    for number in range(2 ** len(strict)):
        chosen = {n for i, n in enumerate(strict) if number >> i & 1}
        converted = {n for n, kind in nodes.items() if kind == "MatMul"}
        for _ in nodes:
            converted |= {
                n
                for n, kind in nodes.items()
                if (kind == "Identity" or n in chosen) and neighbors[n] & converted
            }
        if chosen <= converted and all(neighbors[n] <= converted for n in chosen):
            best |= converted
    return best
