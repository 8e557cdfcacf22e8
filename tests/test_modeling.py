"""The encoder and its parts, compared with golden figures and with NumPy in float64."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from albert import modeling
from albert.core.errors import UserError
from albert.devices import ops
from tests.helpers.encoders import (
    NUMPY_ACTIVATIONS,
    albert,
    assert_close,
    bert,
    load_random_values,
    make_inputs,
    numpy_attention,
    numpy_encode,
    numpy_gelu,
    run_model,
    run_with_random_values,
)
from tests.helpers.golden import FOLDER, assert_encoder_outputs

# Fast to build, for tests of names.
TINY = {"hidden_size": 12, "num_hidden_layers": 1, "intermediate_size": 6}
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


@pytest.mark.each_python
@pytest.mark.parametrize("family", ["albert", "bert"])
def test_outputs_equal_the_references(family):
    assert_encoder_outputs(FOLDER / f"{family}_tiny")


@pytest.mark.parametrize(
    ("changes", "options"),
    [
        # By default, all tokens are attended to, in segment 0.
        ({"num_hidden_layers": 1}, {"given": 1}),
        ({"num_hidden_layers": 2, "inner_group_num": 2, "hidden_act": "relu"}, {}),
        ({"num_hidden_layers": 4, "num_hidden_groups": 2, "embedding_size": 24}, {}),
        (
            {"num_hidden_groups": 3, "num_attention_heads": 1, "embedding_size": 30},
            {"use_einsum": False, "use_one_hot_embeddings": True},
        ),
        # A single row of segments, which adds nothing to segment 1.
        ({"num_hidden_layers": 1, "hidden_act": "linear", "type_vocab_size": 1}, {}),
    ],
)
def test_the_encoder_equals_numpy_in_float64(changes, options):
    config, inputs, given = albert(**changes), make_inputs(seed=3), options.pop("given", 3)
    assert set(inputs[2].ravel()) == {0, 1}
    ours = run_model(config, inputs[:given], **options)
    inputs[given:] = [np.ones_like(inputs[0]), np.zeros_like(inputs[0])][: 3 - given]
    embedding, layers, pooled = numpy_encode(config, ours.values, *inputs)
    assert len(ours.layers) == config.num_hidden_layers * config.inner_group_num
    assert_close(ours.embedding, embedding, 1e-4)
    assert_close(ours.layers, layers, 1e-4)
    assert_close(ours.pooled, pooled, 1e-4)
    np.testing.assert_array_equal(ours.sequence, ours.layers[-1])
    np.testing.assert_array_equal(ours.table, ours.values["bert/embeddings/word_embeddings"])
    np.testing.assert_array_equal(ours.words, ours.table[inputs[0]])
    assert ("Einsum" in ours.kinds) == options.get("use_einsum", True)
    assert not options or ours.kinds["OneHot"] == 2


def test_sequences_beyond_the_longest_or_that_would_be_mixed_are_refused():
    with tf.Graph().as_default():
        modeling.AlbertModel(albert(**TINY), False, tf.zeros([2, 20], tf.int32))
        with pytest.raises(UserError, match="21.*max_position_embeddings 20"):
            modeling.AlbertModel(albert(**TINY), False, tf.zeros([2, 21], tf.int32))
        with pytest.raises(UserError, match="hidden_size 25"):
            modeling.AlbertModel(albert(hidden_size=25), False, tf.zeros([2, 20], tf.int32))

        # They would attend to each other, or be pooled at other tokens than their first ones.
        packing = modeling.Packing(tf.constant([[1, 2]]), tf.constant([[0, 0]]), 2)
        for options in ({"remove_padding": True, "positions": [[0, 1]]}, {}):
            with pytest.raises(ValueError, match="packing needs positions, and works only with"):
                modeling.Encoder(albert(**TINY), False, tf.ones([1, 2]), packing=packing, **options)


def test_bert_shares_no_layers_and_recomputing_keeps_names():
    """Operations are below their layers, as lists of operations for Google's BERT expect."""
    with tf.Graph().as_default() as graph:
        ids = tf.zeros([2, 5], tf.int32)
        modeling.BertModel(bert(), False, ids, scope="other")
        names = [v.op.name for v in tf.global_variables()]
        for part in ("attention/self/query/MatMul", "attention/output/dense/MatMul"):
            assert graph.get_operation_by_name(f"other/encoder/layer_1/{part}")
        assert graph.get_operation_by_name("other/encoder/layer_1/output/dense/BiasAdd")
    assert all(name.startswith("other/") for name in names)
    assert sum("/encoder/" in name for name in names) == 3 * 16
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        ids = tf.zeros([2, 5], tf.int32)
        modeling.Encoder(bert(), True, ids, scope="other", gradient_checkpointing=True)
        assert [v.op.name for v in tf.trainable_variables()] == names


def test_dropout_is_only_in_training():
    rates = {"hidden_dropout_prob": 0.5, "attention_probs_dropout_prob": 0.5}
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(5)
        ids, outputs = tf.constant(make_inputs()[0]), []
        for is_training, names in ((True, []), (False, rates), *((True, [name]) for name in rates)):
            config = albert(num_hidden_layers=1, **{name: rates[name] for name in names})
            with tf.variable_scope("", reuse=tf.AUTO_REUSE):
                model = modeling.AlbertModel(config, is_training, ids, scope="bert")
            outputs.append(model.get_sequence_output())
        session.run(tf.global_variables_initializer())
        load_random_values(session)
        plain, *others = session.run(outputs)
    np.testing.assert_array_equal(others[0], plain)
    assert all(np.abs(dropped - plain).max() > 0.1 for dropped in others[1:])


def test_a_rebuilt_model_has_the_same_dropout_sites():
    """Two dropouts at one site would draw one mask. A model that is built again, between other
    operations and in another name scope, draws the same masks. The step stays outside that scope,
    where checkpoints have it."""
    groups = {"num_hidden_layers": 2, "num_hidden_groups": 2, "inner_group_num": 2}
    config = albert(**groups, hidden_dropout_prob=0.5, attention_probs_dropout_prob=0.5)
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1)
        ids = tf.constant(make_inputs()[0])
        outputs, sites = [], []
        for reuse in (False, True):
            with tf.variable_scope("", reuse=reuse), tf.name_scope("copy"):
                model = modeling.AlbertModel(config, True, ids, scope="bert")
            outputs.append(model.get_sequence_output())
            sites.append(tf.get_collection(ops.SITES))
            modeling.dropout(tf.random.normal([3]), 0.1)
        session.run(tf.global_variables_initializer())
        first, second = session.run(outputs)
        assert tf.train.get_or_create_global_step().op.name == "global_step"
    np.testing.assert_array_equal(first, second)
    blocks = [f"bert/encoder/layer_{i}/inner_group_{k}" for i in range(2) for k in range(2)]
    roles = ["attention_probabilities", "attention_output", "output"]
    assert sites[0] == ["bert/embeddings/output", *(f"{b}/{r}" for b in blocks for r in roles)]


def test_activations_and_the_gradient_of_gelu_equal_numpy():
    x, dy = np.linspace(-6, 6, 1001), np.cos(np.arange(1001))
    expected = {"GELU": numpy_gelu, **NUMPY_ACTIVATIONS}
    with tf.Graph().as_default(), tf.Session() as session:
        inputs = tf.constant(x, tf.float32)
        functions = {name: modeling.get_activation(name) or tf.identity for name in expected}
        outputs = {name: function(inputs) for name, function in functions.items()}
        (gradient,) = tf.gradients(modeling.gelu(inputs), inputs, tf.constant(dy, tf.float32))
        actual, gradient = session.run([outputs, gradient])
    for name, function in expected.items():
        assert_close(actual[name], function(x), 1e-6)
    assert [modeling.get_activation(name) for name in ("linear", "", None)] == [None] * 3
    assert modeling.get_activation(tf.nn.elu) is tf.nn.elu
    with pytest.raises(ValueError, match="swoosh"):
        modeling.get_activation("swoosh")
    scale, cubic = np.sqrt(2 / np.pi), 0.044715
    tanh = np.tanh(scale * (x + cubic * x**3))
    slope = 0.5 * (1 + tanh) + 0.5 * x * (1 - tanh**2) * scale * (1 + 3 * cubic * x**2)
    # Near a tanh of 1, float32 lacks digits: TensorFlow's gradient errs by 4e-6.
    np.testing.assert_allclose(gradient, dy * slope, atol=5e-6)


def test_einsum_via_matmul_equals_einsum():
    """Over two axes, with an unknown batch size; the head of SQuAD 2.0 uses it over one."""
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=[2, 3, 4, 5]), rng.normal(size=[4, 5, 6])
    with tf.Graph().as_default(), tf.Session() as session:
        holder = tf.placeholder(tf.float32, [None, None, 4, 5])
        product = modeling.einsum_via_matmul(holder, tf.constant(w, tf.float32), 2)
        actual = session.run(product, {holder: x})
    assert_close(actual, np.einsum("abcd,cde->abe", x, w), 1e-5)


@pytest.mark.parametrize("masked", [True, False])
def test_the_building_blocks_compose_to_the_model(masked):
    config = albert(num_hidden_layers=4, num_hidden_groups=2, inner_group_num=2)
    ids, mask, segments = make_inputs()
    inputs = ids, mask if masked else np.ones_like(mask), segments
    names = ["hidden_size", "num_hidden_layers", "num_hidden_groups", "num_attention_heads"]
    names += ["intermediate_size", "inner_group_num", "initializer_range"]

    def build():
        with tf.variable_scope("bert/embeddings"):
            sizes = config.vocab_size, config.embedding_size
            words, table = modeling.embedding_lookup(tf.constant(ids), *sizes)
            embedding = modeling.embedding_postprocessor(
                words,
                use_token_type=True,
                token_type_ids=tf.constant(segments),
                token_type_vocab_size=config.type_vocab_size,
                max_position_embeddings=config.max_position_embeddings,
                dropout_prob=0.0,
            )
        with tf.variable_scope("bert/encoder"):
            options = {name: getattr(config, name) for name in names} | NO_DROPOUT
            options |= {"intermediate_act_fn": modeling.gelu, "do_return_all_layers": True}
            given = tf.constant(mask) if masked else None
            layers = modeling.transformer_model(embedding, given, **options)
        return words, table, embedding, layers

    (words, table, embedding, layers), values = run_with_random_values(build)
    shapes = {name: value.shape for name, value in values.items()}
    model = run_model(config, inputs).values
    assert shapes == {name: v.shape for name, v in model.items() if "/pooler/" not in name}
    expected_embedding, expected_layers, _ = numpy_encode(config, {**model, **values}, *inputs)
    np.testing.assert_array_equal(words, table[ids])
    assert_close(embedding, expected_embedding, 1e-4)
    assert len(layers) == 8
    assert_close(layers, expected_layers, 1e-4)


def test_tables_and_weights_have_their_names_and_spread():
    ids = make_inputs()[0]
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1)
        words, table = modeling.embedding_lookup(tf.constant(ids), 100, 50, 0.5, "chars")
        names = {"token_type_embedding_name": "kinds", "position_embedding_name": "places"}
        kinds = True, tf.zeros_like(ids)
        modeling.embedding_postprocessor(words, *kinds, initializer_range=0.25, **names)
        modeling.embedding_postprocessor(words, use_position_embeddings=False)
        sizes = {"embedding_size": 60, "max_position_embeddings": 100, "num_hidden_layers": 1}
        config = albert(initializer_range=0.3, **sizes)
        modeling.AlbertModel(config, False, tf.zeros([2, 5], tf.int32), scope="model")
        session.run(tf.global_variables_initializer())
        rows, values = session.run([words, table])
        tables = session.run({v.op.name: v for v in tf.trainable_variables() if v.shape.rank == 2})
    assert values.shape == (100, 50)
    assert_close(rows, values[ids], 1e-7)
    # A normal distribution truncated at two standard deviations has 0.88 of the spread.
    assert 0.9 < np.abs(values).max() <= 1.0 and abs(values.mean()) < 0.02
    actual = {name: table.std() for name, table in tables.items()}
    of_model = [actual.pop(name) for name in tables if name.startswith("model/")]
    assert actual == pytest.approx({"chars": 0.44, "kinds": 0.22, "places": 0.22}, rel=0.08)
    assert len(of_model) > 9
    assert of_model == pytest.approx([0.88 * 0.3] * len(of_model), rel=0.12)


@pytest.mark.parametrize("as_matrices", [True, False])
def test_attention_from_one_sequence_to_another(as_matrices):
    rng = np.random.default_rng(4)
    x, y = (rng.normal(size=size).astype("f4") for size in ([2, 5, 12], [2, 6, 10]))
    mask, options, acts = None, {}, (None, None, None)
    if as_matrices:
        mask = (rng.random([2, 6]) > 0.4).astype("i4")
        mask[:, 0] = 1
        options = {"batch_size": 2, "from_seq_length": 5, "to_seq_length": 6, "use_einsum": False}
        options |= {"query_act": tf.tanh, "key_act": tf.nn.relu, "value_act": modeling.gelu}
        acts = tuple(NUMPY_ACTIVATIONS[name] for name in ("tanh", "relu", "gelu"))

    def build():
        states = (tf.constant(a.reshape(-1, a.shape[-1]) if as_matrices else a) for a in (x, y))
        return modeling.attention_layer(*states, mask, 3, **options)

    actual, w = run_with_random_values(build)
    shapes = {name: value.shape for name, value in w.items() if "kernel" in name}
    assert shapes == {"query/kernel": (12, 12), "key/kernel": (10, 12), "value/kernel": (10, 12)}
    assert actual.shape == (2, 5, 3, 4)
    assert_close(actual.reshape(x.shape), numpy_attention(x, y, mask, w, "", 3, acts), 1e-5)


def test_each_dropout_can_be_set_and_keeps_the_mean():
    sizes = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 6}
    sizes |= {"num_hidden_layers": 1, "num_hidden_groups": 1}
    with tf.Graph().as_default(), tf.Session() as session:
        rare = [
            modeling.embedding_postprocessor(tf.ones([4, 20, 50]), dropout_prob=0.25),
            modeling.layer_norm_and_dropout(tf.random_normal([100, 40]), 0.25, "Norm"),
        ]
        states = tf.constant(np.random.default_rng(5).normal(size=[2, 5, 8]), tf.float32)
        others = [
            modeling.attention_layer(states, states, attention_probs_dropout_prob=0.5),
            modeling.transformer_model(states, **sizes),
        ]
        assert others[1].shape == states.shape, "of the last layer only"
        session.run(tf.global_variables_initializer())
        for dropped in session.run(rare):
            assert 0.2 < (dropped == 0).mean() < 0.3
        for first, second in zip(session.run(others), session.run(others), strict=True):
            assert not np.array_equal(first, second)
    with tf.Graph().as_default(), tf.Session() as session:
        ones = tf.ones([400, 400])
        dropped = modeling.dropout(ones, 0.3)
        session.run(tf.global_variables_initializer())
        actual = session.run(dropped)
        assert all(modeling.dropout(ones, rate) is ones for rate in (0, 0.0, None))
    kept = actual != 0
    # 160,000 draws: the standard deviation of the fraction is 0.0011.
    assert abs(kept.mean() - 0.7) < 0.01
    np.testing.assert_allclose(actual[kept], 1 / 0.7, rtol=1e-6)


def test_reshaping_to_a_matrix_can_be_undone_and_ranks_are_checked():
    x = np.arange(24, dtype="f4").reshape(2, 3, 4)
    with tf.Graph().as_default(), tf.Session() as session:
        holder = tf.placeholder(tf.float32, [None, 3, 4])
        matrix = modeling.reshape_to_matrix(holder)
        assert matrix.shape.as_list() == [None, 4]
        assert modeling.reshape_to_matrix(matrix) is matrix
        back = modeling.reshape_from_matrix(matrix, modeling.get_shape_list(holder))
        assert modeling.reshape_from_matrix(matrix, [6, 4]) is matrix
        with pytest.raises(ValueError, match=r"`my_name` .* rank 3 .*expected \[1, 2\]"):
            modeling.get_shape_list(holder, [1, 2], name="my_name")
        actual = session.run([matrix, back], {holder: x})
    np.testing.assert_array_equal(actual[0], x.reshape(6, 4))
    np.testing.assert_array_equal(actual[1], x)
