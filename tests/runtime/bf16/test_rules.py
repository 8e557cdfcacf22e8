"""Decisions on small graphs, one for each of the documented rules."""

import collections
import concurrent.futures
import signal

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from runtime.bf16 import configuration, kernel_support
from runtime.bf16 import rules as bf16_rules
from runtime.bf16.rules import plan
from runtime.errors import UserError


def chain(*steps):
    """A graph: a placeholder, then each of the named steps applied to the one before."""
    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.float32, [4, 4], "x")
        for name, function in steps:
            x = function(x, name)
    return graph


def product(x, name):
    return tf.matmul(x, x, name=name)


def same(x, name):
    return tf.identity(x, name)


def twice(x, name):
    return tf.add(x, x, name=name)


def exponential(x, name):
    return tf.exp(x, name)


def rules(graph, **lists):
    """The rule for every node of a graph under a configuration."""
    config = configuration.from_dict(lists, "test")
    return {d.node: d.rule for d in plan(graph.as_graph_def(), config).decisions}


LISTS = {
    "allowlist": ["MatMul"],
    "conditional_list": ["Identity"],
    "strict_conditional_list": ["AddV2"],
}


class TestLists:
    def test_allowlist_is_always_converted_and_the_rest_is_blocked(self):
        graph = chain(("exp", exponential), ("product", product), ("exp_1", exponential))
        assert rules(graph, allowlist=["MatMul"]) == {
            "exp": bf16_rules.NOT_LISTED,
            "product": bf16_rules.ALLOWED,
            "exp_1": bf16_rules.NOT_LISTED,
        }

    @pytest.mark.parametrize("turned", [False, True], ids=["by its input", "by its output"])
    def test_conditional_needs_one_neighbor(self, turned):
        steps = [("product", product), ("same", same), ("exp", exponential)]
        found = rules(chain(*(steps[::-1] if turned else steps)), **LISTS)
        assert found["same"] == bf16_rules.CONDITIONAL

    def test_conditional_spreads(self):
        graph = chain(("product", product), *((f"same_{i}", same) for i in range(3)))
        found = rules(graph, **LISTS)
        assert {found[f"same_{i}"] for i in range(3)} == {bf16_rules.CONDITIONAL}

    def test_conditional_nodes_do_not_convert_each_other(self):
        """The least fixpoint."""
        graph = chain(("same", same), ("same_1", same), ("exp", exponential))
        found = rules(graph, **LISTS)
        assert found["same"] == found["same_1"] == bf16_rules.NO_NEIGHBOR

    def test_blocked_node_stops_the_spreading(self):
        graph = chain(("product", product), ("exp", exponential), ("same", same))
        assert rules(graph, **LISTS)["same"] == bf16_rules.NO_NEIGHBOR

    def test_strict_needs_all_neighbors(self):
        steps = [("product", product), ("twice", twice), ("product_1", product)]
        assert rules(chain(*steps), **LISTS)["twice"] == bf16_rules.STRICT
        found = rules(chain(*steps[:2], ("exp", exponential)), **LISTS)
        assert found["twice"] == bf16_rules.A_NEIGHBOR_STAYS

    def test_strict_chain_does_not_wait_for_itself(self):
        """The greatest fixpoint."""
        steps = [("product", product), ("twice", twice), ("twice_1", twice)]
        found = rules(chain(*steps, ("product_1", product)), **LISTS)
        assert found["twice"] == found["twice_1"] == bf16_rules.STRICT
        found = rules(chain(*steps, ("exp", exponential)), **LISTS)
        assert found["twice"] == found["twice_1"] == bf16_rules.A_NEIGHBOR_STAYS

    def test_strict_looks_at_neighbors_that_could_be_converted_only(self):
        """A placeholder, a constant, a variable and integers could not."""
        graph = tf.Graph()
        with graph.as_default():
            x = tf.placeholder(tf.float32, [4], "x")
            product = tf.matmul(tf.ones([4, 4]), tf.ones([4, 4]), name="product")
            tf.add(product, x, name="to_placeholder")
            tf.add(product, 2.0, name="to_constant")
            tf.add(product, tf.get_variable("v", [4]), name="to_variable")
            tf.reshape(product, [16], name="reshape")
        found = rules(graph, **{**LISTS, "strict_conditional_list": ["AddV2", "Reshape"]})
        strict = ("to_placeholder", "to_constant", "to_variable", "reshape")
        assert {found[name] for name in strict} == {bf16_rules.STRICT}

    def test_strict_without_a_converted_neighbor_stays(self):
        assert rules(chain(("twice", twice)), **LISTS)["twice"] == bf16_rules.NO_NEIGHBOR

    def test_conditional_does_not_lean_on_a_strict_node_that_stays(self):
        steps = [("product", product), ("twice", twice), ("same", same)]
        assert rules(chain(*steps), **LISTS)["same"] == bf16_rules.CONDITIONAL
        graph = chain(*steps)
        with graph.as_default():
            tf.exp(graph.get_tensor_by_name("twice:0"), "exp")
        found = rules(graph, **LISTS)
        assert found["twice"] == bf16_rules.A_NEIGHBOR_STAYS
        assert found["same"] == bf16_rules.NO_NEIGHBOR


class TestExceptions:
    STEPS = (("product", product), ("exp", exponential), ("same", same))

    def test_non_convertible(self):
        found = rules(chain(*self.STEPS), **LISTS, non_convertible_exceptions=[["prod.*", ""]])
        assert found["product"] == bf16_rules.KEPT

    def test_convertible(self):
        found = rules(chain(*self.STEPS), **LISTS, convertible_exceptions=[["exp", "Exp"]])
        assert found["exp"] == bf16_rules.FORCED
        assert found["same"] == bf16_rules.CONDITIONAL

    def test_non_convertible_wins(self):
        exceptions = {
            "non_convertible_exceptions": [["exp", "Exp"]],
            "convertible_exceptions": [["exp", ""]],
        }
        assert rules(chain(*self.STEPS), **LISTS, **exceptions)["exp"] == bf16_rules.KEPT

    @pytest.mark.parametrize("exception", [["exp", "Log"], ["ex", "Exp"], ["xp", ""]])
    def test_is_about_the_whole_name_and_the_type(self, exception):
        found = rules(chain(*self.STEPS), **LISTS, convertible_exceptions=[exception])
        assert found["exp"] == bf16_rules.NOT_LISTED

    @pytest.mark.parametrize("pattern", ["(a+)+b", ".*.*.*.*.*.*.*.*.*b"])
    def test_a_pattern_that_takes_for_ever(self, monkeypatch, pattern):
        monkeypatch.setattr(configuration, "_LONGEST_MATCHING", 0.2)
        graph, before = chain(("a" * 200, same)), signal.getsignal(signal.SIGVTALRM)
        with pytest.raises(UserError) as caught:
            rules(graph, **LISTS, convertible_exceptions=[["exp", ""], [pattern, ""]])
        assert "TF_BF16_CONVERSION: the patterns" in str(caught.value)
        assert f"{pattern!r}, on the node {'a' * 200}" in str(caught.value)
        assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0, 0)
        assert signal.getsignal(signal.SIGVTALRM) == before

    def test_patterns_in_a_thread(self):
        """Where no signals are, there is no limit."""
        config = configuration.from_dict({"convertible_exceptions": [["e.*", ""]]}, "test")
        graph_def = chain(("exp", exponential)).as_graph_def()
        with concurrent.futures.ThreadPoolExecutor() as pool:
            assert pool.submit(plan, graph_def, config).result() == plan(graph_def, config)

    @pytest.mark.parametrize("value", ["1", "basic"])
    def test_names_that_every_list_knows(self, value):
        graph = chain(
            ("a/KEEP_FP32_PRECISION/b", product), ("a/FORCE_BF16_PRECISION_b", exponential)
        )
        decisions = plan(graph.as_graph_def(), configuration.load(value)).decisions
        assert [d.rule for d in decisions] == [bf16_rules.KEPT, bf16_rules.FORCED]


class TestCandidates:
    def test_op_without_a_kernel_stays_and_is_reported(self):
        graph = tf.Graph()
        with graph.as_default():
            x = tf.placeholder(tf.float32, [4, 4])
            tf.raw_ops.Erfinv(x=x, name="no_cpu_kernel")
            tf.raw_ops.Qr(input=x, name="type_not_allowed")
        config = configuration.from_dict({"allowlist": ["Erfinv", "Qr"]}, "test")
        found = plan(graph.as_graph_def(), config)
        assert {d.rule for d in found.decisions} == {bf16_rules.NO_KERNEL}
        assert found.summary().endswith("no bfloat16 kernel here: Erfinv, Qr")
        on_a_card = plan(graph.as_graph_def(), config, "hpu").decisions
        assert [d.rule for d in on_a_card] == [bf16_rules.ALLOWED, bf16_rules.NO_KERNEL]

    def test_other_types_and_stored_values_are_no_candidates(self):
        graph = tf.Graph()
        with graph.as_default():
            variable = tf.get_variable("v", [4], initializer=tf.zeros_initializer())
            variable.assign(tf.placeholder(tf.float32, [4]))
            tf.cast(tf.add(1, 2), tf.float32)
            tf.gather(variable, [0])
            tf.add(tf.constant(1.0, tf.bfloat16), tf.constant(1.0, tf.bfloat16))
        ops = {op.type for op in graph.get_operations()}
        assert rules(graph, allowlist=sorted(ops)) == {}

    def test_kernels_are_looked_for_only_where_one_is_needed(self, monkeypatch):
        """To make a kernel can have effects, or end the process."""
        probed = []
        monkeypatch.setattr(
            kernel_support,
            "_has_kernel",
            lambda node, types: probed.append(tf.NodeDef.FromString(node).op) or True,
        )
        steps = [("product", product), ("twice", twice), ("exp", exponential), ("kept", same)]
        graph = chain(*steps, ("force", tf.sqrt))
        exceptions = {
            "non_convertible_exceptions": [["kept", ""]],
            "convertible_exceptions": [["force", ""]],
        }
        found = rules(graph, **LISTS, **exceptions)
        assert probed == ["MatMul", "AddV2", "Sqrt"]
        assert found["twice"] == bf16_rules.A_NEIGHBOR_STAYS

    def test_control_flow_of_tensorflow_1_is_no_candidate(self):
        graph = tf.Graph()
        tf.disable_control_flow_v2()
        try:
            with graph.as_default():
                x = tf.placeholder(tf.float32, [2, 2], "x")
                tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.matmul(y, x)), [0, x])
        finally:
            tf.enable_control_flow_v2()
        kinds = {op.type for op in graph.get_operations()}
        loop = {"Enter", "Exit", "LoopCond", "Merge", "NextIteration", "Switch"}
        assert loop <= kinds
        found = rules(graph, allowlist=["MatMul"], conditional_list=sorted(kinds - {"MatMul"}))
        assert found["while/MatMul"] == bf16_rules.ALLOWED
        assert not loop & {graph.get_operation_by_name(name).type for name in found}

    def test_legacy_variables_are_refused(self):
        """TensorFlow's own rewriting of casts can give values from before an assignment."""
        graph = tf.Graph()
        with graph.as_default():
            tf.get_variable("resource", [2, 2])
            tf.get_variable("old", [2, 2], use_resource=False)
        with pytest.raises(
            ValueError, match="^old is a legacy variable.*enable_resource_variables"
        ):
            rules(graph, **LISTS)

    def test_others_are_left_alone(self):
        graph = chain(("product", product), ("product_1", product))
        config = configuration.from_dict(LISTS, "test")
        decisions = plan(graph.as_graph_def(), config, others={"product"}).decisions
        assert [d.node for d in decisions] == ["product_1"]


class TestBorders:
    def test_one_cast_for_all_that_need_it(self):
        graph = tf.Graph()
        with graph.as_default():
            x = tf.placeholder(tf.float32, [4, 4], "x")
            products = [tf.matmul(x, x, name=f"product_{i}") for i in range(2)]
            tf.exp(products[0]), tf.sqrt(products[0])
        casts = plan(graph.as_graph_def(), configuration.from_dict(LISTS, "test")).casts
        assert [(c.tensor, c.dtype) for c in casts] == [
            ("x", tf.bfloat16),
            ("product_0", tf.float32),
        ]

    def test_one_cast_for_all_layers_that_share_a_weight(self):
        """But none for reads that wait for something, such as an update."""
        with tf.Graph().as_default() as graph:
            x = tf.placeholder(tf.float32, [4, 4])
            weight = tf.get_variable("weight", [4, 4], use_resource=True)
            for _ in range(3):
                x = tf.matmul(x, weight)
            with tf.control_dependencies([weight.assign_add(x)]):
                tf.matmul(x, weight.read_value())
        config = configuration.from_dict({"allowlist": ["MatMul"]}, "test")
        casts = plan(graph.as_graph_def(), config).casts
        # The second is of the value after the update.
        assert [c.tensor for c in casts if c.tensor not in ("Placeholder", "MatMul_2")] == [
            "weight/Read/ReadVariableOp",
            "Identity",
        ]

    def test_outputs_of_several_tensors(self):
        graph = tf.Graph()
        with graph.as_default():
            parts = tf.split(product(tf.placeholder(tf.float32, [4, 4], "x"), "product"), 2)
            tf.exp(parts[1])
            tf.concat([*parts, tf.ones([1, 4])], axis=0, name="concat")
        lists = {**LISTS, "conditional_list": ["Split", "ConcatV2"]}
        casts = plan(graph.as_graph_def(), configuration.from_dict(lists, "test")).casts
        assert [(c.tensor, c.dtype) for c in casts] == [
            ("x", tf.bfloat16),
            ("split:1", tf.float32),
            ("ones", tf.bfloat16),
        ]

    def test_output_for_the_outside(self):
        graph = chain(("product", product))
        config = configuration.from_dict(LISTS, "test")
        found = plan(graph.as_graph_def(), config, outputs=["product:0"])
        assert [(c.tensor, c.dtype) for c in found.casts] == [
            ("x", tf.bfloat16),
            ("product", tf.float32),
        ]


class TestFunctions:
    def test_body_is_decided_by_itself(self):
        graph = tf.Graph()
        with graph.as_default():
            x = tf.matmul(tf.ones([4, 4]), tf.ones([4, 4]), name="outer")
            tf.cond(
                tf.placeholder(tf.bool, []),
                lambda: tf.matmul(tf.exp(x), x, name="inner"),
                lambda: tf.identity(x),
            )
        found = plan(graph.as_graph_def(), configuration.from_dict(LISTS, "test"))
        inside = {d.node: d.rule for d in found.decisions if d.function}
        # In a function a node gives way to a result of the same name.
        assert inside["inner_0"] == bf16_rules.ALLOWED
        assert inside["Exp"] == bf16_rules.NOT_LISTED
        # The branch takes float32 whatever the product outside gives.
        assert inside["Identity"] == bf16_rules.NO_NEIGHBOR
        borders = [(c.tensor.split(":")[0], c.dtype) for c in found.casts if c.function]
        assert sorted(borders, key=str) == [
            ("Exp", tf.bfloat16),
            ("exp_outer", tf.bfloat16),
            ("inner_0", tf.float32),
        ]

    def test_exceptions_hold_for_what_a_matching_node_calls(self):
        def inner(x):
            return tf.cond(x[0, 0] > 0, lambda: tf.matmul(x, x, name="deep"), lambda: tf.exp(x))

        def outer(x):
            return tf.cond(x[0, 0] > 1, lambda: inner(x), lambda: tf.matmul(x, x, name="high"))

        graph = tf.Graph()
        with graph.as_default():
            x = tf.placeholder(tf.float32, [4, 4], "x")
            for scope in ("KEEP", "free", "FORCE"):
                with tf.name_scope(scope):
                    outer(x)
        exceptions = {
            "non_convertible_exceptions": [["KEEP/.*", "MatMul"]],
            "convertible_exceptions": [["FORCE/cond/cond/.*", "Exp"]],
        }
        config = configuration.from_dict({**LISTS, **exceptions}, "test")
        decisions = plan(graph.as_graph_def(), config).decisions
        found = collections.Counter((d.op, d.rule) for d in decisions if d.op in ("MatMul", "Exp"))
        assert found == {
            ("MatMul", bf16_rules.KEPT): 2,
            ("MatMul", bf16_rules.ALLOWED): 4,
            ("Exp", bf16_rules.FORCED): 1,
            ("Exp", bf16_rules.NOT_LISTED): 2,
        }

    def test_function_with_several_callers(self):
        """What one of them must keep in float32 stays so for all."""
        graph_def = tf.GraphDef()
        function = graph_def.library.function.add()
        function.signature.name = "square"
        function.signature.input_arg.add(name="x", type=tf.float32.as_datatype_enum)
        function.signature.output_arg.add(name="y", type=tf.float32.as_datatype_enum)
        node = function.node_def.add(name="product", op="MatMul", input=["x", "x"])
        node.attr["T"].type = tf.float32.as_datatype_enum
        function.ret["y"] = "product:product:0"
        x = graph_def.node.add(name="x", op="Placeholder")
        x.attr["dtype"].type = tf.float32.as_datatype_enum
        for name in ("a", "b"):
            call = graph_def.node.add(name=name, op="PartitionedCall", input=["x"])
            call.attr["f"].func.name = "square"
            for types in ("Tin", "Tout"):
                call.attr[types].list.type.append(tf.float32.as_datatype_enum)

        def rule(**exceptions):
            config = configuration.from_dict({**LISTS, **exceptions}, "test")
            (decision,) = plan(graph_def, config).decisions
            return decision.rule

        assert rule() == bf16_rules.ALLOWED
        for name in ("a/product", "b/product", "product"):
            assert rule(non_convertible_exceptions=[[name, ""]]) == bf16_rules.KEPT
        assert rule(non_convertible_exceptions=[["c/product", ""]]) == bf16_rules.ALLOWED


def test_report():
    graph = chain(("product", product), ("same", same), ("exp", exponential))
    found = plan(graph.as_graph_def(), configuration.from_dict(LISTS, "lists.json"))
    assert found.counts() == {
        (bf16_rules.ALLOWED, "MatMul"): 1,
        (bf16_rules.CONDITIONAL, "Identity"): 1,
        (bf16_rules.NOT_LISTED, "Exp"): 1,
    }
    assert found.as_dict() == {
        "config": "lists.json",
        "operations": [{"rule": rule, "op": op, "nodes": 1} for rule, op in list(found.counts())],
        "casts": {"bfloat16": 1, "float32": 1},
    }
    assert found.summary() == (
        "bfloat16 by lists.json: 2 of 3 float32 operations, 1 casts to bfloat16, 1 back"
    )
    rows = [line.split() for line in found.table()]
    assert rows[1:3] == [["allowlist", "MatMul", "1"], ["conditional", "Identity", "1"]]
    assert rows[-1] == ["border", "cast", "to", "float32", "1"]
    assert len({len(line) for line in found.table()}) == 1


def test_oracle_on_random_graphs():
    """The rules by brute force: of all sets that obey them, taken one by one."""
    rng = np.random.RandomState(7)
    for _ in range(30):
        kinds = [rng.choice([product, same, twice, exponential]) for _ in range(7)]
        graph = tf.Graph()
        with graph.as_default():
            tensors = [tf.placeholder(tf.float32, [4, 4], "x")]
            for i, kind in enumerate(kinds):
                tensors.append(kind(tensors[rng.randint(len(tensors))], f"n{i}"))
        config = configuration.from_dict(LISTS, "test")
        found = {d.node for d in plan(graph.as_graph_def(), config).decisions if d.is_converted}
        assert found == brute_force(graph)


def brute_force(graph):
    """The union over sets of strict nodes that the rules bear out, each with the least set of
    conditional nodes that goes with it."""
    nodes = {op.name: op.type for op in graph.get_operations() if op.type != "Placeholder"}
    neighbors = {name: set() for name in nodes}
    for op in graph.get_operations():
        for source in {t.op.name for t in op.inputs} & set(nodes):
            neighbors[op.name].add(source)
            neighbors[source].add(op.name)
    always = {n for n, kind in nodes.items() if kind == "MatMul"}
    strict = sorted(n for n, kind in nodes.items() if kind == "AddV2")
    best = set()
    for number in range(2 ** len(strict)):
        chosen = {n for i, n in enumerate(strict) if number >> i & 1}
        converted = set(always)
        for _ in nodes:
            converted |= {
                n
                for n, kind in nodes.items()
                if (kind == "Identity" or n in chosen) and neighbors[n] & converted
            }
        if chosen <= converted and all(neighbors[n] <= converted for n in chosen):
            best |= converted
    return best
