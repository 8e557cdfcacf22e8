"""Graphs in bfloat16 and float32: values, types, whole training runs, and checkpoints both ways."""

import functools
import re

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from albert.core import estimators
from albert.modeling import AlbertConfig
from albert.optimization import OptimizerOptions
from albert.precision import configuration
from albert.precision.conversion import convert, rewrite
from albert.precision.rules import plan
from albert.prediction.model import ModelOptions
from albert.tasks.squad.head import make_v1_head
from albert.training import model_fn as model_fns
from tests.helpers.golden import FOLDER
from tests.helpers.squad_head import ALL, SIZES, golden_run, golden_steps, make_batch

TRAIN, PREDICT = estimators.ModeKeys.TRAIN, estimators.ModeKeys.PREDICT
DROPOUT = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
CONFIG = AlbertConfig(**{**SIZES, **DROPOUT, "num_hidden_layers": 1}, initializer_range=0.2)
BERT_LIST = str(configuration.SHIPPED_FOR_BERT)
PRODUCTS = ("MatMul", "BatchMatMulV2", "Einsum")
IN_ENCODER = re.compile("bfloat16/(gradients/)?bert/encoder/")
BFLOAT16 = tf.bfloat16.as_numpy_dtype


def needed_by(operation) -> list[tf.Operation]:
    graph = operation.graph
    nodes = tf.graph_util.extract_sub_graph(graph.as_graph_def(), [operation.name]).node
    return [graph.get_operation_by_name(node.name) for node in nodes]


def rewritten(graph, outputs=(), **lists):
    """Returns the graph that a configuration makes, and the names of the outputs in it."""
    graph_def = graph.as_graph_def()
    names = rewrite(plan(graph_def, configuration.from_dict(lists, "test"), outputs=outputs))
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

    def test_branches_stay_float32_and_take_and_return_it(self):
        with tf.Graph().as_default() as graph:
            x = tf.placeholder(tf.float32, [1, 1], "x")
            product = tf.matmul(x, x)
            inside = tf.cond(x[0, 0] > 0, lambda: tf.matmul(product, x), lambda: x)
            tf.identity(tf.matmul(tf.identity(inside, "inside"), x), "y")
        converted, _ = rewritten(graph, allowlist=["MatMul"])
        with tf.Session(graph=converted) as session:
            inside, y = session.run(["inside:0", "y:0"], {"x:0": [[1 + 2**-9]]})
        assert (inside.item(), y.item()) == (1 + 2**-9, 1)

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
@pytest.mark.parametrize(("model", "precision"), [("bert", "float16"), ("albert", "bfloat16")])
def test_losses_in_low_precision_are_those_of_float32(model, precision):
    figures, run = golden_run(FOLDER / f"{model}_tiny", "squad_v1_adamw.npz")
    model_config, checkpoint, *numbers = run
    options = ModelOptions(OptimizerOptions(*numbers, scales_loss=True), checkpoint)
    model_fn = model_fns.make_model_fn(model_config, make_v1_head(False), options)
    path = configuration.SHIPPED if model == "albert" else configuration.SHIPPED_FOR_BERT
    config, seen = configuration.chosen(precision, path), []

    def look(features, step):
        seen.extend(o.get_attr("T") for o in needed_by(step.op) if o.type == "MatMul")
        return step.learning_rate

    keys = [key for key in ALL if key in figures]
    weights = {"cls/squad/output_weights": figures["output_weights"]}
    model_fn = convert(model_fn, config)
    _, losses, _ = golden_steps(figures, model_fn, keys, weights, look)
    assert seen.count(config.dtype) > 30 and seen.count(tf.float32) == 3, "those of the head"
    np.testing.assert_allclose(losses, figures["losses"], rtol=0.01)


@functools.cache
def build(value, **options):
    """Builds a step of SQuAD under a value of TF_BF16_CONVERSION, as an estimator does; returns its
    operations, and the model's specification."""
    options = ModelOptions(OptimizerOptions(2e-3, 20, 2), **options)
    model_fn = model_fns.make_model_fn(CONFIG, make_v1_head(False), options)
    model_fn = convert(model_fn, configuration.load(value))
    with tf.Graph().as_default():
        tf.set_random_seed(3)
        tf.train.create_global_step()
        batch = {k: tf.constant(v, tf.int32) for k, v in make_batch(padded=32).items()}
        spec = model_fn(batch, None, TRAIN, {})
        return needed_by(spec.train_op), spec


class TestModel:
    @pytest.mark.parametrize(
        ("value", "options"),
        [("1", {}), ("1", {"use_einsum": True}), ("basic", {}), (BERT_LIST, {})],
        ids=["1", "1, einsum", "basic", "bert.json"],
    )
    def test_matrix_products_are_bfloat16(self, value, options):
        """ "1" converts those of the encoder, the other lists those of the head as well."""
        scope = IN_ENCODER if value == "1" else re.compile("")
        operations, _ = build(value, **options)
        products = [o for o in operations if o.type in PRODUCTS and scope.match(o.name)]
        assert {o.get_attr("T") for o in products} == {tf.bfloat16}
        # Six dense layers, two products of attention, and one dense layer before them; one product
        # forward and two backward each.
        assert sum(bool(IN_ENCODER.match(o.name)) for o in products) == 3 * (8 + 1)

    def test_precise_operations_stay_float32(self):
        operations, spec = build("1")
        assert spec.loss.dtype == tf.float32
        precise = [
            op
            for op in operations
            if op.type in ("SparseSoftmaxCrossEntropyWithLogits", "L2Loss", "Mean", "BiasAddGrad")
            or "LayerNorm" in op.name
            and op.type in ("Sub", "Square", "Rsqrt")
            or "global_norm" in op.name
            or "start_logits" in op.name
        ]
        assert len(precise) > 20
        types = {t.dtype for op in precise for t in [*op.inputs, *op.outputs]}
        assert tf.bfloat16 not in types and tf.float32 in types

    def test_the_model_sees_what_the_graph_already_has(self):
        """The model may use an operation or depend on it. Variables are those of the model."""

        def model_fn(features, labels, mode, params):
            with tf.control_dependencies([tf.get_default_graph().get_operation_by_name("count")]):
                y = tf.matmul(features, features)
            new = tf.get_variable("new", [])
            carrier = estimators.GraphParts({"variables": [new], "product": y})
            return estimators.EstimatorSpec(mode, {"y": y * new}, training_hooks=[carrier])

        with tf.Graph().as_default(), tf.Session() as session:
            counter = tf.get_variable("counter", initializer=0.0)
            tf.group(counter.assign_add(1.0), name="count")
            x = tf.matmul(tf.eye(2), tf.eye(2))
            spec = convert(model_fn, configuration.load("basic"))(x, None, PREDICT, {})
            session.run(tf.global_variables_initializer())
            session.run(spec.predictions)
            assert session.run(counter) == 1
            carried = estimators.graph_parts(spec)
            assert carried["variables"][0] is tf.global_variables()[1]
            np.testing.assert_array_equal(session.run(carried["product"]), np.eye(2))
