"""The building blocks under the reference's names, against NumPy in float64 and the model."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import modeling
from tests.helpers.encoders import (
    NUMPY_ACTIVATIONS,
    albert,
    assert_close,
    make_inputs,
    numpy_attention,
    numpy_encode,
    numpy_layer_norm,
    run_model,
    run_with_random_values,
)


def test_one_after_the_other_they_are_the_model():
    """The same variables, the same outputs."""
    config = albert(num_hidden_layers=4, num_hidden_groups=2, inner_group_num=2)
    ids, mask, segments = inputs = make_inputs()
    names = ["hidden_size", "num_hidden_layers", "num_hidden_groups", "num_attention_heads"]
    names += ["intermediate_size", "inner_group_num", "initializer_range"]

    def build():
        with tf.variable_scope("bert/embeddings"):
            words, table = modeling.embedding_lookup(
                tf.constant(ids), config.vocab_size, config.embedding_size
            )
            embedding = modeling.embedding_postprocessor(
                words,
                use_token_type=True,
                token_type_ids=tf.constant(segments),
                token_type_vocab_size=config.type_vocab_size,
                max_position_embeddings=config.max_position_embeddings,
                dropout_prob=0.0,
            )
        with tf.variable_scope("bert/encoder"):
            layers = modeling.transformer_model(
                embedding,
                tf.constant(mask),
                **{name: getattr(config, name) for name in names},
                intermediate_act_fn=modeling.gelu,
                hidden_dropout_prob=0.0,
                attention_probs_dropout_prob=0.0,
                do_return_all_layers=True,
            )
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


@pytest.mark.parametrize(("types", "positions"), [(True, False), (False, True)])
def test_what_is_added_to_embeddings(types, positions):
    x = np.random.default_rng(2).normal(size=[3, 5, 8]).astype("f4")
    segments = make_inputs(3, 5)[2]
    names = {"token_type_embedding_name": "kinds", "position_embedding_name": "places"}
    added = {"use_token_type": types, "use_position_embeddings": positions}

    def build():
        given = {**names, **added, "token_type_ids": tf.constant(segments), "dropout_prob": None}
        return modeling.embedding_postprocessor(tf.constant(x), **given)

    found, values = run_with_random_values(build)
    tables = {name: value.shape for name, value in values.items() if value.ndim == 2}
    assert tables == ({"kinds": (16, 8)} if types else {"places": (512, 8)})
    total = x + (values["kinds"][segments] if types else values["places"][:5])
    assert_close(found, numpy_layer_norm(total, values, "LayerNorm"), 1e-5)


def test_tables_have_names_and_spread():
    ids = make_inputs()[0]
    with tf.Graph().as_default(), tf.Session() as session:
        words, table = modeling.embedding_lookup(tf.constant(ids), 100, 50, 0.5, "chars")
        modeling.embedding_postprocessor(words, True, tf.zeros_like(ids), initializer_range=0.25)
        session.run(tf.global_variables_initializer())
        rows, values = session.run([words, table])
        tables = session.run({v.op.name: v for v in tf.trainable_variables() if v.shape.rank == 2})
    assert values.shape == (100, 50)
    assert_close(rows, values[ids], 1e-7)
    # A normal distribution cut off at two standard deviations has 0.88 of the spread.
    assert 0.9 < np.abs(values).max() <= 1.0 and abs(values.mean()) < 0.02
    spread = dict.fromkeys(("token_type_embeddings", "position_embeddings"), 0.22)
    found = {name: table.std() for name, table in tables.items()}
    assert found == pytest.approx({"chars": 0.44, **spread}, rel=0.08)


def test_weights_of_the_model_have_the_configurations_spread():
    sizes = {"embedding_size": 60, "max_position_embeddings": 100, "num_hidden_layers": 1}
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1)
        config = albert(initializer_range=0.3, **sizes)
        modeling.AlbertModel(config, False, tf.zeros([2, 5], tf.int32))
        session.run(tf.global_variables_initializer())
        values = session.run([v for v in tf.trainable_variables() if v.shape.rank == 2])
    assert len(values) > 9
    assert [v.std() for v in values] == pytest.approx([0.88 * 0.3] * len(values), rel=0.12)


@pytest.mark.parametrize("as_matrices", [True, False])
def test_attention_from_one_sequence_to_another(as_matrices):
    """With a mask, activations and products without einsum, or with none of these."""
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

    found, w = run_with_random_values(build)
    shapes = {name: value.shape for name, value in w.items() if "kernel" in name}
    assert shapes == {"query/kernel": (12, 12), "key/kernel": (10, 12), "value/kernel": (10, 12)}
    assert found.shape == (2, 5, 3, 4)
    assert_close(found.reshape(x.shape), numpy_attention(x, y, mask, w, "", 3, acts), 1e-5)


TRANSFORMER = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 6}


def test_without_a_mask_a_transformer_attends_to_all():
    x = np.random.default_rng(3).normal(size=[2, 5, 8]).astype("f4")
    none = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    sizes = {**TRANSFORMER, "num_hidden_layers": 2, "num_hidden_groups": 1, **none}

    def build():
        states = tf.constant(x)
        last = modeling.transformer_model(states, None, **sizes)
        tf.get_variable_scope().reuse_variables()
        ones = tf.ones([2, 5], tf.int32)
        return last, modeling.transformer_model(states, ones, do_return_all_layers=True, **sizes)

    (last, layers), values = run_with_random_values(build)
    np.testing.assert_array_equal(last, layers[-1])
    assert len(layers) == 2
    # As wide as the encoder, the input needs no layer of its own.
    assert all(name.startswith("transformer/group_0/") for name in values)


def test_dropout():
    """Of embeddings, of attention probabilities, after a layer norm, and, by default, of a
    transformer."""
    one = {"num_hidden_layers": 1, "num_hidden_groups": 1}
    with tf.Graph().as_default(), tf.Session() as session:
        rare = [
            modeling.embedding_postprocessor(tf.ones([4, 20, 50]), dropout_prob=0.25),
            modeling.layer_norm_and_dropout(tf.random_normal([100, 40]), 0.25, "Norm"),
        ]
        states = tf.constant(np.random.default_rng(5).normal(size=[2, 5, 8]), tf.float32)
        others = [
            modeling.attention_layer(states, states, attention_probs_dropout_prob=0.5),
            modeling.transformer_model(states, **TRANSFORMER, **one),
        ]
        session.run(tf.global_variables_initializer())
        for dropped in session.run(rare):
            assert 0.2 < (dropped == 0).mean() < 0.3
        for first, second in zip(session.run(others), session.run(others), strict=True):
            assert not np.array_equal(first, second)


def test_to_a_matrix_and_back():
    x = np.arange(24, dtype="f4").reshape(2, 3, 4)
    with tf.Graph().as_default(), tf.Session() as session:
        holder = tf.placeholder(tf.float32, [None, 3, 4])
        matrix = modeling.reshape_to_matrix(holder)
        assert matrix.shape.as_list() == [None, 4]
        assert modeling.reshape_to_matrix(matrix) is matrix
        back = modeling.reshape_from_matrix(matrix, modeling.get_shape_list(holder))
        assert modeling.reshape_from_matrix(matrix, [6, 4]) is matrix
        found = session.run([matrix, back], {holder: x})
    np.testing.assert_array_equal(found[0], x.reshape(6, 4))
    np.testing.assert_array_equal(found[1], x)
