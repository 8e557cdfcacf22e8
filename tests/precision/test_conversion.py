"""Graphs in bfloat16 and float32: values, types, whole training runs, and checkpoints both ways."""

import collections
import functools
import re
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from albert.core import estimators
from albert.distributed import collectives
from albert.modeling import AlbertConfig, BertConfig
from albert.optimization import OptimizerOptions
from albert.precision import configuration, rules
from albert.precision.conversion import convert, rewrite
from albert.precision.rules import plan
from albert.prediction.model import ModelOptions
from albert.tasks.pretraining.head import make_head as make_pretraining_head
from albert.tasks.squad.head import make_v1_head
from albert.training import model_fn as model_fns
from tests.helpers.golden import FOLDER
from tests.helpers.running import simulated_workers
from tests.helpers.squad_head import ALL, golden_run, golden_steps, make_batch

TRAIN, PREDICT = estimators.ModeKeys.TRAIN, estimators.ModeKeys.PREDICT
SIZES = {"vocab_size": 60, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
SIZES |= {"intermediate_size": 32, "max_position_embeddings": 32, "initializer_range": 0.2}
DROPOUT = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
CONFIG = AlbertConfig(**SIZES, **DROPOUT, embedding_size=8)
BERT_LIST = str(configuration.SHIPPED_FOR_BERT)
PRODUCTS = ("MatMul", "BatchMatMulV2", "Einsum")
IN_ENCODER = re.compile("(gradients/)?bert/encoder/")
BFLOAT16 = tf.bfloat16.as_numpy_dtype
BATCH = make_batch(padded=32)


def rewritten(graph, outputs=(), **lists):
    """Returns the graph that a configuration makes, and the names of the outputs in it."""
    graph_def = graph.as_graph_def()
    names = rewrite(
        graph_def, plan(graph_def, configuration.from_dict(lists, "test"), outputs=outputs)
    )
    result = tf.Graph()
    with result.as_default():
        tf.import_graph_def(graph_def, name="")
    return result, names


class TestRewrite:
    def test_a_product_rounds_its_factors_and_itself(self):
        rng = np.random.RandomState(3)
        a, b = rng.standard_normal((2, 8, 8)).astype("f4")
        with tf.Graph().as_default() as graph:
            x = tf.placeholder(tf.float32, [8, 8], "x")
            tf.subtract(tf.matmul(x, tf.constant(b), name="product"), x, name="difference")
        converted, _ = rewritten(graph, allowlist=["MatMul"])
        assert converted.get_tensor_by_name("product:0").dtype == tf.bfloat16
        with tf.Session(graph=converted) as session:
            difference = session.run("difference:0", {"x:0": a})
        exact = a.astype(BFLOAT16).astype("f8") @ b.astype(BFLOAT16).astype("f8")
        # A kernel may round each of its eight sums to 8 bits: half a unit in the last place.
        product = difference + a
        assert (np.abs(product - exact) <= 8 * 2**-8 * (np.abs(a) @ np.abs(b))).all()
        rounded = product.astype(BFLOAT16).astype("f4")
        np.testing.assert_allclose(product, rounded, rtol=0, atol=1e-6)
        assert np.abs(product - a @ b).max() > 1e-3

    def test_function_bodies_are_converted(self):
        with tf.Graph().as_default() as graph:
            x, positive = tf.placeholder(tf.float32, [2, 2], "x"), tf.placeholder(tf.bool, [], "p")
            result = tf.cond(
                positive, lambda: (tf.matmul(x, x), tf.exp(x)), lambda: (tf.matmul(x, -x), x)
            )
            tf.identity(result[0], "product"), tf.identity(result[1], "other")
        converted, _ = rewritten(graph, allowlist=["MatMul"])
        rough = np.array([[1 + 2**-9, 0], [0, 2]], "f4")
        with tf.Session(graph=converted) as session:
            for p, sign in ((True, 1), (False, -1)):
                product, other = session.run(["product:0", "other:0"], {"x:0": rough, "p:0": p})
                assert product.tolist() == [[sign, 0], [0, 4 * sign]]
                np.testing.assert_allclose(other, np.exp(rough) if p else rough, rtol=1e-6)

    def test_loops_of_tensorflow_1_convert_only_their_body(self):
        """The loop's own operations stay in float32, even where they are listed."""
        tf.disable_control_flow_v2()
        try:
            with tf.Graph().as_default() as graph:
                x = tf.placeholder(tf.float32, [2, 2], "x")
                w = tf.constant([[1.0, 1.0], [0.0, 1.0]])
                _, y = tf.while_loop(
                    lambda i, y: i < 3, lambda i, y: (i + 1, tf.matmul(y, w)), [0, x]
                )
                tf.identity(tf.gradients(y, x)[0], "gradient"), tf.identity(y, "y")
        finally:
            tf.enable_control_flow_v2()
        kinds = {op.type for op in graph.get_operations()} - {"MatMul"}
        lists = {"allowlist": ["MatMul"], "conditional_list": sorted(kinds)}
        converted, names = rewritten(graph, ["y:0", "gradient:0"], **lists)
        loop = {"Enter", "Exit", "LoopCond", "Merge", "NextIteration", "Switch"}
        assert loop <= kinds
        loop_operations = [op for op in converted.get_operations() if op.type in loop]
        assert tf.bfloat16 not in {tensor.dtype for op in loop_operations for tensor in op.outputs}
        with tf.Session(graph=converted) as session:
            y, gradient = session.run(names, {"x:0": [[1 + 2**-9, 0], [0, 2]]}).values()
        # Rounded to 8 bits.
        assert y.tolist() == [[1, 3], [0, 2]] and gradient.tolist() == [[4, 1], [4, 1]]

    def test_outputs_are_float32_and_nothing_is_converted_twice(self):
        with tf.Graph().as_default() as graph:
            x = tf.placeholder(tf.float32, [2, 2], "x")
            product = tf.matmul(x, x, name="product")
            # The name that a cast would get.
            tf.exp(tf.identity(tf.add(product, x), "x/to_bfloat16"), name="exp")
        lists = {"allowlist": ["MatMul"], "conditional_list": ["Identity"]}
        lists |= {"strict_conditional_list": ["AddV2"]}
        once, names = rewritten(graph, ["exp:0", "product:0"], **lists)
        assert names["exp:0"] == "exp:0" and names["product:0"] != "product:0"
        assert {once.get_tensor_by_name(n).dtype for n in names.values()} == {tf.float32}
        assert once.get_operation_by_name("x/to_bfloat16").type == "Identity"
        again = plan(once.as_graph_def(), configuration.from_dict(lists, "test"))
        assert not any(d.is_converted for d in again.decisions) and not again.casts


# TensorFlow emulates these products on the CPU: a step takes 2 to 3 s.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "precision"), [("albert", "float16"), ("bert", "float16"), ("albert", "bfloat16")]
)
def test_losses_in_low_precision_are_those_of_float32(model, precision):
    figures, run = golden_run(FOLDER / f"{model}_tiny", "squad_v1_adamw.npz")
    model_config, checkpoint, *numbers = run
    options = ModelOptions(OptimizerOptions(*numbers, scales_loss=True), checkpoint)
    model_fn = model_fns.make_model_fn(model_config, make_v1_head(False), options)
    path = configuration.SHIPPED if model == "albert" else configuration.SHIPPED_FOR_BERT
    config, seen = configuration.chosen(precision, path), []

    def look(features, step):
        operations = tf.get_default_graph().get_operations()
        seen.extend(o.get_attr("T") for o in operations if o.type == "MatMul")
        return step.learning_rate

    keys = [key for key in ALL if key in figures]
    weights = {"cls/squad/output_weights": figures["output_weights"]}
    model_fn = convert(model_fn, config)
    _, losses, _ = golden_steps(figures, model_fn, keys, weights, look)
    assert seen.count(config.dtype) > 30 and seen.count(tf.float32) == 3, "those of the head"
    np.testing.assert_allclose(losses, figures["losses"], rtol=0.01)


@functools.cache
def build(value=None, mode=TRAIN, workers=1, config=CONFIG, accumulation=1, **options):
    """Builds the graph of SQuAD under a value of TF_BF16_CONVERSION, as an estimator does; returns
    it with its specification.

    The graph belongs to one of `workers` workers, with a stand-in for bert.json's all-reduce.
    """
    all_reduce = {"allreduce": lambda vector, op, name: tf.tanh(vector, name)}
    horovod = types.SimpleNamespace(Average=None, **all_reduce)
    job = simulated_workers(workers)
    optimizer = OptimizerOptions(2e-3, 20, 2, gradient_accumulation_steps=accumulation)
    options = ModelOptions(optimizer, **options)
    model_fn = model_fns.make_model_fn(config, make_v1_head(False), options)
    if loaded := configuration.load(value):
        model_fn = convert(model_fn, loaded)
    with tf.Graph().as_default() as graph, pytest.MonkeyPatch.context() as patch, job:
        patch.setattr(collectives, "_horovod", horovod)
        tf.set_random_seed(3)
        tf.train.create_global_step()
        batch = {k: tf.constant(v, tf.int32) for k, v in BATCH.items()}
        return graph, model_fn(batch, None, mode, {})


def nodes(graph):
    return {op.name: op for op in graph.get_operations()}


class TestModel:
    @pytest.mark.parametrize(
        ("value", "options"),
        [("1", {}), ("1", {"use_einsum": True}), ("basic", {}), (BERT_LIST, {})],
        ids=["1", "1, einsum", "basic", "bert.json"],
    )
    def test_matrix_products_are_bfloat16(self, value, options):
        """ "1" converts those of the encoder, the other lists those of the head as well."""
        scope = IN_ENCODER if value == "1" else re.compile("")
        operations = build(value, **options)[0].get_operations()
        products = [o for o in operations if o.type in PRODUCTS and scope.match(o.name)]
        assert {o.get_attr("T") for o in products} == {tf.bfloat16}
        # Six dense layers, two products of attention, and one dense layer before them; one product
        # forward and two backward each.
        assert sum(bool(IN_ENCODER.match(o.name)) for o in products) == 3 * (8 + 1)

    def test_precise_operations_stay_float32(self):
        graph, spec = build("1")
        assert spec.loss.dtype == tf.float32
        precise = [
            op
            for op in graph.get_operations()
            if op.type in ("SparseSoftmaxCrossEntropyWithLogits", "L2Loss", "Mean", "BiasAddGrad")
            or "LayerNorm" in op.name
            and op.type in ("Sub", "Square", "Rsqrt")
            or "global_norm" in op.name
            or "start_logits" in op.name
        ]
        assert len(precise) > 20
        types = {t.dtype for op in precise for t in [*op.inputs, *op.outputs]}
        assert tf.bfloat16 not in types and tf.float32 in types

    def test_conversion_only_adds_casts(self):
        """Seeds of initial values and dropout, and the tensors that hooks read, are the same."""
        (plain, spec), (converted, other_spec) = build(), build("1")
        expected, actual = nodes(plain), nodes(converted)
        assert expected.keys() <= actual.keys()
        assert {actual[name].type for name in actual.keys() - expected.keys()} == {"Cast"}
        for name, op in expected.items():
            assert actual[name].type == op.type
            shapes = ([str(tensor.shape) for tensor in o.outputs] for o in (op, actual[name]))
            assert len({*map(tuple, shapes)}) == 1
            for kind, attribute in (("Const", "value"), ("TruncatedNormal", "seed2")):
                if op.type == kind:
                    assert actual[name].get_attr(attribute) == op.get_attr(attribute)
        steps = [estimators.graph_parts(one) for one in (spec, other_spec)]
        for part, other in zip(*steps, strict=True):
            if isinstance(part, tf.Tensor):
                assert other.name == part.name and other.dtype == tf.float32
                assert other.graph is converted
        assert steps[1].op is other_spec.train_op

    def test_predictions_are_float32(self):
        graph, spec = build(BERT_LIST, mode=PREDICT)
        types = {key: tensor.dtype for key, tensor in spec.predictions.items()}
        scores = dict.fromkeys(("start_top_log_probs", "end_top_log_probs"), tf.float32)
        indices = dict.fromkeys(("unique_ids", "start_top_index", "end_top_index"), tf.int32)
        assert types == {**indices, **scores}
        # With "basic", the scores themselves are bfloat16.
        assert graph.get_tensor_by_name("start_logits:0").dtype == tf.bfloat16
        assert {tensor.graph for tensor in spec.predictions.values()} == {graph}

    def test_the_model_sees_what_the_graph_already_has(self):
        """The model may use an operation or depend on it. A new variable is the same object in
        every collection and where it is carried."""

        def model_fn(features, labels, mode, params):
            with tf.control_dependencies([tf.get_default_graph().get_operation_by_name("count")]):
                y = tf.matmul(features, features)
            new = tf.get_variable("new", [])
            carrier = estimators.GraphParts({"variables": [new]})
            return estimators.EstimatorSpec(mode, {"y": y * new}, training_hooks=[carrier])

        with tf.Graph().as_default(), tf.Session() as session:
            counter = tf.get_variable("counter", initializer=0.0)
            tf.add_to_collection("mine", tf.group(counter.assign_add(1.0), name="count"))
            tf.add_to_collection("mine", "text")
            x = tf.matmul(tf.eye(2), tf.eye(2))
            spec = convert(model_fn, configuration.load("basic"))(x, None, PREDICT, {})
            session.run(tf.global_variables_initializer())
            session.run(spec.predictions)
            assert session.run(counter) == 1 and tf.get_collection("mine")[1:] == ["text"]
            variables, trained = tf.global_variables(), tf.trainable_variables()
            (carried,) = estimators.graph_parts(spec)["variables"]
            assert variables[0] is trained[0] is counter and variables[1] is trained[1] is carried


@pytest.mark.slow
def test_bert_json_converts_a_bert_as_it_converts_an_albert():
    """The encoders match operation by operation, although their parts have different names."""
    config, converted = configuration.load(BERT_LIST), []
    albert = AlbertConfig(**SIZES, **DROPOUT, embedding_size=16)
    for sizes in (albert, BertConfig(**SIZES, **DROPOUT, type_vocab_size=2)):
        decisions = plan(build(config=sizes)[0].as_graph_def(), config).decisions
        converted.append(
            collections.Counter((d.op, d.rule) for d in decisions if IN_ENCODER.match(d.node))
        )
    assert converted[0] == converted[1]
    # Scaling a query, forward and backward, and GELU forward.
    assert converted[1]["Mul", rules.FORCED] == 2 + 6


@pytest.mark.slow
def test_pretraining_scores_are_float32():
    """This holds for tokens and for sentence order; what precedes them is as in the encoder."""
    options = ModelOptions(OptimizerOptions(1e-3, 10, 2, "lamb"))
    model_fn = model_fns.make_model_fn(CONFIG, make_pretraining_head(CONFIG), options)
    features = {key: BATCH[key] for key in ("input_ids", "input_mask", "segment_ids")}
    features["masked_lm_positions"] = features["masked_lm_ids"] = np.tile(np.arange(1, 6), (4, 1))
    features["next_sentence_labels"] = np.zeros(4, int)
    with tf.Graph().as_default() as graph:
        tf.train.create_global_step()
        tensors = {key: tf.constant(value, tf.int32) for key, value in features.items()}
        tensors["masked_lm_weights"] = tf.ones([4, 5])
        convert(model_fn, configuration.load("1"))(tensors, None, TRAIN, {})
    actual = {
        name.removeprefix("gradients/").removeprefix("cls/"): op.get_attr("T")
        for name, op in nodes(graph).items()
        if "cls/" in name and op.type in ("MatMul", "BiasAdd")
    }
    # The gradients of both factors of each product.
    ends = ["MatMul", "MatMul_grad/MatMul", "MatMul_grad/MatMul_1", "BiasAdd"]
    heads = {"predictions": tf.float32, "seq_relationship": tf.float32}
    heads["predictions/transform/dense"] = tf.bfloat16
    assert actual == {f"{head}/{end}": t for head, t in heads.items() for end in ends}


@pytest.mark.slow
def test_albert_json_converts_alike_for_one_and_several_workers():
    """The branch of a step's last micro-batch is converted in the same way, too."""
    one, two = (build(workers=n, accumulation=2)[0].as_graph_def() for n in (1, 2))
    for device in ("cpu", "hpu"):
        single, double = (plan(g, configuration.load("1"), device).decisions for g in (one, two))
        mean_decisions = [d for d in double if d.node.startswith("mean_over_workers")]
        kinds = ("ConcatV2", "Identity", "Reshape", "SplitV", "Tanh")
        assert {(d.op, d.rule) for d in mean_decisions} == {(kind, rules.KEPT) for kind in kinds}
        model_decisions = [(d.node, d.rule) for d in double if d not in mean_decisions]
        assert model_decisions == [(d.node, d.rule) for d in single]
    # Here it rounds what bert.json sends on a card.
    decisions = plan(two, configuration.load(BERT_LIST)).decisions
    (vector,) = (d for d in decisions if d.node == "mean_over_workers/concat")
    assert vector.rule == rules.CONDITIONAL
