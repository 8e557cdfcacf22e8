"""Graphs in bfloat16 and float32: values, types, whole trainings, and checkpoints both ways."""

import collections
import functools
import re
import shutil
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import encoder_task
import squad_utils
from modeling import AlbertConfig, BertConfig
from optimization import OptimizerOptions
from pretraining.head import make_head as make_pretraining_head
from runtime import distributed, estimators
from runtime.bf16 import configuration, conversion, rules
from runtime.bf16.rules import plan
from runtime.distributed import Worker
from runtime.training import graph_keys
from squad.head import make_v1_head

TRAIN, PREDICT = estimators.ModeKeys.TRAIN, estimators.ModeKeys.PREDICT
CONFIG = AlbertConfig(
    vocab_size=60,
    embedding_size=8,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=32,
    hidden_dropout_prob=0.1,
    attention_probs_dropout_prob=0.1,
    initializer_range=0.2,
)
PRODUCTS = ("MatMul", "BatchMatMulV2", "Einsum")
IN_ENCODER = re.compile("(gradients/)?bert/encoder/")
BFLOAT16 = tf.bfloat16.as_numpy_dtype


def rewritten(graph, outputs=(), **lists):
    """The graph that a configuration makes, and the names of the outputs in it."""
    graph_def = graph.as_graph_def()
    names = conversion.rewrite(
        graph_def, plan(graph_def, configuration.from_dict(lists, "test"), outputs=outputs)
    )
    result = tf.Graph()
    with result.as_default():
        tf.import_graph_def(graph_def, name="")
    return result, names


def nodes_of_gelu(graph):
    """Of the forward pass of the first block."""
    scope = "bert/encoder/transformer/group_0/layer_0/inner_group_0/ffn_1/intermediate/"
    kinds = ("AddV2", "Mul", "Tanh")
    return [
        o
        for o in graph.get_operations()
        if o.type in kinds and o.name.startswith(scope) and "/" not in o.name[len(scope) :]
    ]


class TestRewrite:
    def test_values(self):
        """The product of the rounded factors, itself rounded, then float32 again."""
        rng = np.random.RandomState(3)
        a, b = rng.standard_normal((2, 8, 8)).astype("f4")
        graph = tf.Graph()
        with graph.as_default():
            x = tf.placeholder(tf.float32, [8, 8], "x")
            tf.subtract(tf.matmul(x, tf.constant(b), name="product"), x, name="difference")
        converted, _ = rewritten(graph, allowlist=["MatMul"])
        assert converted.get_tensor_by_name("product:0").dtype == tf.bfloat16
        with tf.Session(graph=converted) as session:
            difference = session.run("difference:0", {"x:0": a})
        exact = a.astype(BFLOAT16).astype("f8") @ b.astype(BFLOAT16).astype("f8")
        # A kernel may round each of its eight sums to 8 bits, by half a unit in the last of them.
        product = difference + a
        assert (np.abs(product - exact) <= 8 * 2**-8 * (np.abs(a) @ np.abs(b))).all()
        rounded = product.astype(BFLOAT16).astype("f4")
        np.testing.assert_allclose(product, rounded, rtol=0, atol=1e-6)
        assert np.abs(product - a @ b).max() > 1e-3

    def test_function_bodies(self):
        graph = tf.Graph()
        with graph.as_default():
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

    def test_loops_of_tensorflow_1(self):
        graph = tf.Graph()
        tf.disable_control_flow_v2()
        try:
            with graph.as_default():
                x = tf.placeholder(tf.float32, [2, 2], "x")
                w = tf.constant([[1.0, 1.0], [0.0, 1.0]])
                _, y = tf.while_loop(
                    lambda i, y: i < 3, lambda i, y: (i + 1, tf.matmul(y, w)), [0, x]
                )
                tf.identity(tf.gradients(y, x)[0], "gradient"), tf.identity(y, "y")
        finally:
            tf.enable_control_flow_v2()
        converted, names = rewritten(
            graph, ["y:0", "gradient:0"], allowlist=["MatMul"], conditional_list=["Identity"]
        )
        with tf.Session(graph=converted) as session:
            y, gradient = session.run(names, {"x:0": [[1 + 2**-9, 0], [0, 2]]}).values()
        # Rounded to 8 bits.
        assert y.tolist() == [[1, 3], [0, 2]] and gradient.tolist() == [[4, 1], [4, 1]]

    def test_outputs_are_float32(self):
        graph = tf.Graph()
        with graph.as_default():
            x = tf.placeholder(tf.float32, [2, 2], "x")
            tf.matmul(x, x, name="product"), tf.exp(x, "exp")
        converted, names = rewritten(graph, ["exp:0", "product:0"], allowlist=["MatMul"])
        assert names["exp:0"] == "exp:0" and names["product:0"] != "product:0"
        assert {converted.get_tensor_by_name(n).dtype for n in names.values()} == {tf.float32}

    def test_nothing_is_converted_twice(self):
        graph = tf.Graph()
        with graph.as_default():
            x = tf.placeholder(tf.float32, [2, 2], "x")
            tf.exp(tf.identity(tf.add(tf.matmul(x, x), x)))
        lists = {
            "allowlist": ["MatMul"],
            "conditional_list": ["Identity"],
            "strict_conditional_list": ["AddV2"],
        }
        once, _ = rewritten(graph, **lists)
        again = plan(once.as_graph_def(), configuration.from_dict(lists, "test"))
        assert not any(d.is_converted for d in again.decisions) and not again.casts

    def test_names_of_casts_are_free(self):
        graph = tf.Graph()
        with graph.as_default():
            x = tf.placeholder(tf.float32, [2, 2], "x")
            tf.identity(tf.matmul(x, x), "x/to_bfloat16")
        converted, _ = rewritten(graph, allowlist=["MatMul"])
        assert converted.get_operation_by_name("x/to_bfloat16").type == "Identity"


def make_model_fn(value=None, config=CONFIG, gradient_accumulation_steps=1, **options):
    """SQuAD's model, under a value of TF_BF16_CONVERSION."""
    optimizer = OptimizerOptions(
        2e-3, 20, 2, gradient_accumulation_steps=gradient_accumulation_steps
    )
    model_fn = encoder_task.make_model_fn(
        config, make_v1_head(False), encoder_task.ModelOptions(optimizer, **options)
    )
    loaded = configuration.load(value)
    return conversion.convert(model_fn, loaded) if loaded else model_fn


def make_batch():
    rng = np.random.RandomState(5)
    shape = (4, 32)
    return {
        "input_ids": rng.randint(1, 60, shape),
        "input_mask": np.ones(shape, int),
        "segment_ids": np.zeros(shape, int),
        "unique_ids": np.arange(4),
        "start_positions": np.array([7, 19, 5, 0]),
        "end_positions": np.array([31, 19, 8, 0]),
    }


def build(value=None, mode=TRAIN, **options):
    """The graph of a model_fn as an estimator builds it, and its specification."""
    graph = tf.Graph()
    with graph.as_default():
        tf.set_random_seed(3)
        tf.train.create_global_step()
        batch = {k: tf.constant(v, tf.int32) for k, v in make_batch().items()}
        spec = make_model_fn(value, **options)(batch, None, mode, {})
    return graph, spec


def nodes(graph):
    return {op.name: op for op in graph.get_operations()}


@pytest.fixture(scope="module")
def plain():
    return build()


@pytest.fixture(scope="module")
def converted():
    return build("1")


def described(graph, key):
    with graph.as_default():
        return [(v.name, v.shape.as_list(), v.dtype, v.trainable) for v in tf.get_collection(key)]


class TestModel:
    @pytest.mark.parametrize("use_einsum", [False, True])
    def test_matrix_products_of_the_encoder(self, converted, use_einsum):
        graph = build("1", use_einsum=True)[0] if use_einsum else converted[0]
        products = [
            op for op in graph.get_operations() if op.type in PRODUCTS and IN_ENCODER.match(op.name)
        ]
        # Per layer 6 dense layers and 2 of attention, before them one dense layer; forward, and
        # two backward each.
        assert len(products) == 3 * (2 * 8 + 1)
        assert {op.get_attr("T") for op in products} == {tf.bfloat16}

    def test_what_must_be_precise_is_float32(self, converted):
        graph, spec = converted
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

    def test_variables_are_those_of_float32(self):
        plain, converted = (build(v, gradient_accumulation_steps=2)[0] for v in (None, "1"))
        keys = tf.GraphKeys
        for key in (
            keys.GLOBAL_VARIABLES,
            keys.TRAINABLE_VARIABLES,
            keys.LOCAL_VARIABLES,
            keys.GLOBAL_STEP,
        ):
            assert described(converted, key) == described(plain, key) != []

    def test_nodes_are_those_of_float32_and_casts(self, plain, converted):
        """Also the seeds of initial values and dropout."""
        wanted, found = nodes(plain[0]), nodes(converted[0])
        assert wanted.keys() <= found.keys()
        more = [found[name] for name in found.keys() - wanted.keys()]
        assert {op.type for op in more} == {"Cast"}
        for name, op in wanted.items():
            assert found[name].type == op.type
            assert [t.shape.as_list() for t in op.outputs if t.shape.rank is not None] == [
                t.shape.as_list() for t in found[name].outputs if t.shape.rank is not None
            ]
            if op.type == "Const":
                assert found[name].get_attr("value") == op.get_attr("value")
            if op.type == "TruncatedNormal":
                assert found[name].get_attr("seed2") == op.get_attr("seed2")

    def test_tensors_for_hooks(self, plain, converted):
        for key in (graph_keys.LOSS, graph_keys.LEARNING_RATE, graph_keys.TOKENS):
            (wanted,), (found,) = (graph.get_collection(key) for graph in (plain[0], converted[0]))
            assert found.name == wanted.name and found.dtype == tf.float32
            assert found.graph is converted[0]

    def test_plan_is_stable(self, plain):
        config = configuration.load("1")
        first, second = (plan(graph.as_graph_def(), config) for graph in (plain[0], build()[0]))
        assert first == second and sum(d.is_converted for d in first.decisions) > 100

    @pytest.mark.parametrize(
        "value, mode, is_converted",
        [("1", PREDICT, True), ("1", TRAIN, False), ("basic", PREDICT, False)],
    )
    def test_gelu_has_the_type_of_the_product_where_both_become_one(
        self, value, mode, is_converted
    ):
        found = nodes_of_gelu(build(value, mode)[0])
        assert len(found) == 9
        assert {o.outputs[0].dtype == tf.bfloat16 for o in found} == {is_converted}

    def test_predictions_are_float32(self):
        graph, spec = build(str(configuration.SHIPPED).replace("albert", "bert"), PREDICT)
        types = {key: tensor.dtype for key, tensor in spec.predictions.items()}
        assert types == {
            "unique_ids": tf.int32,
            "start_log_prob": tf.float32,
            "end_log_prob": tf.float32,
        }
        # There the scores themselves are bfloat16.
        assert graph.get_tensor_by_name("start_logits:0").dtype == tf.bfloat16
        assert {tensor.graph for tensor in spec.predictions.values()} == {graph}

    @pytest.mark.parametrize(
        "value", ["basic", str(configuration.SHIPPED).replace("albert", "bert")]
    )
    def test_other_configurations(self, value):
        graph, _ = build(value)
        products = [op for op in graph.get_operations() if op.type in PRODUCTS]
        assert {op.get_attr("T") for op in products} == {tf.bfloat16}

    @pytest.mark.parametrize(
        ("field", "make"),
        [
            ("prediction_hooks", lambda: [tf.train.StopAtStepHook(1)]),
            ("scaffold", lambda: tf.train.Scaffold(init_fn=lambda scaffold, session: None)),
            (
                "scaffold",
                lambda: tf.train.Scaffold(saver=tf.train.Saver([tf.get_variable("v", 1)])),
            ),
        ],
    )
    def test_parts_that_would_be_lost_are_refused(self, field, make):
        def model_fn(features, labels, mode, params):
            return estimators.EstimatorSpec(mode, tf.ones([2]), **{field: make()})

        with tf.Graph().as_default(), pytest.raises(ValueError, match=f"a model_fn with {field}"):
            conversion.convert(model_fn, configuration.load("1"))({}, None, PREDICT, {})

    def test_outputs_for_export_are_passed_on(self):
        """With their names, in float32 and in the graph that is exported."""

        def model_fn(features, labels, mode, params):
            x = tf.ones([2, 2])
            outputs = {
                "serving_default": estimators.PredictOutput({"a": tf.matmul(x, x), "b": x}),
                "classes": estimators.ClassificationOutput(scores=tf.matmul(x, -x)),
                "number": estimators.RegressionOutput(tf.matmul(-x, x)),
            }
            return estimators.EstimatorSpec(mode, x, export_outputs=outputs)

        with tf.Graph().as_default() as graph, tf.Session() as session:
            spec = conversion.convert(model_fn, configuration.load("basic"))({}, None, PREDICT, {})
            found = {key: type(output) for key, output in spec.export_outputs.items()}
            assert found == {
                "serving_default": estimators.PredictOutput,
                "classes": estimators.ClassificationOutput,
                "number": estimators.RegressionOutput,
            }
            default, classes, number = spec.export_outputs.values()
            tensors = [default.outputs["a"], default.outputs["b"], classes.scores, number.value]
            assert {tensor.graph for tensor in tensors} == {graph}
            assert [value[0, 0] for value in session.run(tensors)] == [2, 1, -2, -2]
            assert {tensor.dtype for tensor in tensors} == {tf.float32}
            assert graph.get_operation_by_name("MatMul").get_attr("T") == tf.bfloat16


def test_bert_json_converts_a_bert_as_it_converts_an_albert():
    """Operation by operation of the encoder; the names of its parts differ."""
    values = {k: v for k, v in CONFIG.to_dict().items() if k in vars(BertConfig(60))}
    bert = BertConfig(**values)
    albert = AlbertConfig(**values, embedding_size=bert.hidden_size, num_hidden_groups=2)
    config, converted = configuration.load("1", configuration.SHIPPED_FOR_BERT), []
    for sizes in (albert, bert):
        graph_def = build(config=sizes)[0].as_graph_def()
        decisions = plan(graph_def, config).decisions
        converted.append(
            collections.Counter((d.op, d.rule) for d in decisions if IN_ENCODER.match(d.node))
        )
    assert converted[0] == converted[1]
    # Scaling a query, forward and backward, and GELU forward.
    assert converted[1]["Mul", rules.FORCED] == 2 * (2 + 6)


@pytest.mark.parametrize("mode", [TRAIN, PREDICT])
def test_scores_of_pretraining_are_float32(mode):
    """Those of tokens and of the sentences' order; what comes before them is as in the encoder."""
    options = encoder_task.ModelOptions(OptimizerOptions(1e-3, 10, 2, "lamb"))
    model_fn = encoder_task.make_model_fn(CONFIG, make_pretraining_head(CONFIG), options)
    batch = make_batch()
    features = {key: batch[key] for key in ("input_ids", "input_mask", "segment_ids")}
    features["masked_lm_positions"] = features["masked_lm_ids"] = np.tile(np.arange(1, 6), (4, 1))
    features["next_sentence_labels"] = np.zeros(4, int)
    with tf.Graph().as_default() as graph:
        tf.train.create_global_step()
        tensors = {key: tf.constant(value, tf.int32) for key, value in features.items()}
        tensors["masked_lm_weights"] = tf.ones([4, 5])
        conversion.convert(model_fn, configuration.load("1"))(tensors, None, mode, {})
    found = {
        name.removeprefix("gradients/").removeprefix("cls/"): op.get_attr("T")
        for name, op in nodes(graph).items()
        if "cls/" in name and op.type in ("MatMul", "BiasAdd")
    }
    # Of each product the gradients of its two factors.
    ends = ["MatMul", "MatMul_grad/MatMul", "MatMul_grad/MatMul_1"][: 3 if mode == TRAIN else 1]
    heads = {"predictions": tf.float32, "seq_relationship": tf.float32}
    heads["predictions/transform/dense"] = tf.bfloat16
    assert found == {f"{head}/{end}": t for head, t in heads.items() for end in [*ends, "BiasAdd"]}


class TestSeveralWorkers:
    """The graph of one of two workers, with a stand-in for the all-reduce that is on bert.json."""

    @pytest.fixture(scope="class")
    def decisions(self):
        @functools.cache
        def graph_def(workers, batches):
            horovod = types.SimpleNamespace(
                Average=None, allreduce=lambda vector, op, name: tf.tanh(vector, name)
            )
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(distributed, "_worker", Worker(0, workers, 0, workers, "mpirun"))
                patch.setattr(distributed, "_horovod", horovod)
                return build(gradient_accumulation_steps=batches)[0].as_graph_def()

        def decisions(workers, config, device, batches=1):
            return plan(graph_def(workers, batches), configuration.load(config), device).decisions

        return decisions

    @pytest.mark.parametrize("device", ["cpu", "hpu"])
    @pytest.mark.parametrize("batches", [1, 2])
    def test_albert_json_converts_what_it_converts_for_one(self, decisions, device, batches):
        one, two = (decisions(workers, "1", device, batches) for workers in (1, 2))
        of_mean = [d for d in two if d.node.startswith("mean_over_workers")]
        assert {d.op for d in of_mean} == {"ConcatV2", "Identity", "Reshape", "SplitV", "Tanh"}
        assert {d.rule for d in of_mean} == {rules.KEPT}
        of_model = [(d.node, d.rule) for d in two if d not in of_mean]
        assert of_model == [(d.node, d.rule) for d in one]

    def test_bert_json_rounds_what_it_would_send_on_a_card(self, decisions):
        (vector,) = (
            d
            for d in decisions(2, str(configuration.SHIPPED).replace("albert", "bert"), "cpu")
            if d.node == "mean_over_workers/concat"
        )
        assert vector.rule == rules.CONDITIONAL


class Losses(tf.train.SessionRunHook):
    """Keeps the loss of every run."""

    def __init__(self):
        self.values = []

    def before_run(self, run_context):
        return tf.train.SessionRunArgs(tf.get_collection(graph_keys.LOSS)[0])

    def after_run(self, run_context, run_values):
        self.values.append(float(run_values.results))


def input_fn():
    batch = {k: tf.constant(v, tf.int32) for k, v in make_batch().items()}
    return tf.data.Dataset.from_tensors(batch).repeat()


def train(folder, value, steps, **options):
    """Trains up to a step, without dropout; the losses on the way."""
    config = AlbertConfig(
        **{**CONFIG.to_dict(), "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    )
    losses = Losses()
    estimators.Estimator(
        make_model_fn(value, config, **options),
        config=estimators.RunConfig(
            str(folder), tf_random_seed=3, save_checkpoints_steps=8, log_step_count_steps=None
        ),
        params={},
    ).train(input_fn, hooks=[losses], max_steps=steps)
    return losses.values


def begin_with_step_8(folder, new_folder):
    """Copies a checkpoint of a training, from which another goes on."""
    for path in folder.glob("model.ckpt-8.*"):
        shutil.copy(path, new_folder)
    (new_folder / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-8"')


class TestTraining:
    @pytest.fixture(scope="class")
    def runs(self, tmp_path_factory):
        """Folders and losses of trainings in float32 and with the shipped list."""
        folders = {value: tmp_path_factory.mktemp("run") for value in (None, "1")}
        return {value: (folder, train(folder, value, 12)) for value, folder in folders.items()}

    def test_loss_is_near_that_of_float32(self, runs):
        (_, wanted), (_, found) = runs[None], runs["1"]
        assert wanted[-1] < wanted[0] - 0.5
        difference = np.abs(np.subtract(found, wanted))
        # The same initial weights and data.
        assert difference[0] < 1e-3 and 1e-5 < difference.max() < 0.02

    def test_with_gradient_accumulation(self, runs, tmp_path):
        """Twice the same batch is the same step."""
        losses = train(tmp_path, "1", 12, gradient_accumulation_steps=2)
        assert losses[::2] == [0.0] * 12
        assert np.abs(np.subtract(losses[1::2], runs["1"][1])).max() < 0.02

    @pytest.mark.parametrize(("written", "read"), [("1", None), (None, "1")])
    def test_checkpoints_load_into_each_other(self, runs, written, read, tmp_path):
        """Training goes on with the loss that it would have had."""
        folder, losses = runs[written]
        begin_with_step_8(folder, tmp_path)
        (more,) = train(tmp_path, read, 9)
        assert 0 < abs(more - losses[8]) < 0.01

    def test_with_gradient_checkpointing(self, runs, tmp_path):
        """The last steps of a training without it are nearly the same with it."""
        begin_with_step_8(runs["1"][0], tmp_path)
        losses = train(tmp_path, "1", 12, gradient_checkpointing=True)
        differences = {v: np.abs(np.subtract(losses, runs[v][1][8:])).max() for v in runs}
        assert differences["1"] < 5e-4 < differences[None] < 0.02

    def test_variables_in_checkpoints(self, runs):
        found, wanted = (tf.train.list_variables(str(runs[value][0])) for value in ("1", None))
        assert found == wanted
        types = tf.train.load_checkpoint(str(runs["1"][0])).get_variable_to_dtype_map()
        assert set(types.values()) == {tf.float32, tf.int64}

    def test_starts_from_a_checkpoint(self, runs, tmp_path):
        """`init_checkpoint` sets variables up in the graph that is converted."""
        checkpoint = str(runs["1"][0] / "model.ckpt-12")
        model_fn = conversion.convert(
            squad_utils.v1_model_fn_builder(
                CONFIG, checkpoint, 0.0, 20, 0, False, False, False, None
            ),
            configuration.load("1"),
        )
        estimators.Estimator(model_fn, str(tmp_path), params={}).train(input_fn, max_steps=1)
        name = "bert/pooler/dense/kernel"
        start, trained = (tf.train.load_variable(str(f), name) for f in (tmp_path, checkpoint))
        assert np.array_equal(start, trained)
