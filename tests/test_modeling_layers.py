"""The building blocks under the reference's names, against NumPy in float64 and the model."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import modeling
from runtime.errors import UserError
from tests.helpers.encoders import (
    albert,
    assert_close,
    make_inputs,
    numpy_attention,
    numpy_encode,
    numpy_gelu,
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
    options = {"token_type_embedding_name": "kinds", "position_embedding_name": "places"}

    def build():
        return modeling.embedding_postprocessor(
            tf.constant(x),
            use_token_type=types,
            token_type_ids=tf.constant(segments),
            use_position_embeddings=positions,
            dropout_prob=None,
            **options,
        )

    found, values = run_with_random_values(build)
    total = x.astype("f8")
    if types:
        assert values["kinds"].shape == (16, 8)
        total = total + values["kinds"][segments]
    if positions:
        assert values["places"].shape == (512, 8)
        total = total + values["places"][:5]
    assert len(values) == 2 + types + positions
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


class TestAttentionLayer:
    HEADS = 3

    @pytest.fixture(scope="class")
    def inputs(self):
        """States of two sequences, and a mask of the second."""
        rng = np.random.default_rng(4)
        mask = (rng.random([2, 6]) > 0.4).astype("i4")
        mask[:, 0] = 1
        x, y = (rng.normal(size=size).astype("f4") for size in ([2, 5, 12], [2, 6, 10]))
        return x, y, mask

    @pytest.mark.parametrize(("masked", "use_einsum"), [(True, False), (False, True)])
    def test_from_one_sequence_to_another(self, inputs, masked, use_einsum):
        x, y, mask = inputs
        mask = mask if masked else None
        found, w = run_with_random_values(
            lambda: modeling.attention_layer(
                tf.constant(x), tf.constant(y), mask, self.HEADS, use_einsum=use_einsum
            )
        )
        shapes = {name: value.shape for name, value in w.items() if "kernel" in name}
        assert shapes["query/kernel"] == (12, 12)
        assert shapes["key/kernel"] == shapes["value/kernel"] == (10, 12) and len(shapes) == 3
        assert found.shape == (2, 5, 3, 4)
        expected = numpy_attention(x, y, mask, w, "", self.HEADS)
        assert_close(found.reshape(x.shape), expected, 1e-5)

    def test_matrices_and_activations(self, inputs):
        x, y, mask = inputs
        acts = {"query_act": tf.tanh, "key_act": tf.nn.relu, "value_act": modeling.gelu}
        sizes = {"batch_size": 2, "from_seq_length": 5, "to_seq_length": 6}

        def build():
            matrices = (tf.constant(a.reshape(-1, a.shape[-1])) for a in (x, y))
            return modeling.attention_layer(*matrices, mask, self.HEADS, **sizes, **acts)

        found, w = run_with_random_values(build)
        acts = (np.tanh, lambda h: np.maximum(h, 0), numpy_gelu)
        expected = numpy_attention(x, y, mask, w, "", self.HEADS, acts)
        assert_close(found.reshape(x.shape), expected, 1e-5)


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


def test_errors():
    with tf.Graph().as_default():
        x, matrix = tf.zeros([2, 3, 4]), tf.zeros([6, 4])
        modeling.assert_rank(matrix, 2)
        modeling.assert_rank(matrix, [2, 3])
        with pytest.raises(ValueError, match=r"`ids` .*rank 2 .*expected \[1, 3\]"):
            modeling.assert_rank(matrix, [1, 3], name="ids")
        with pytest.raises(ValueError, match="rank 3"):
            modeling.embedding_lookup(tf.zeros([2, 3, 1], tf.int32), 50)
        with pytest.raises(ValueError, match="use_token_type needs token_type_ids"):
            modeling.embedding_postprocessor(x, use_token_type=True)
        with pytest.raises(UserError, match="3 is more than .*max_position_embeddings 2"):
            modeling.embedding_postprocessor(x, max_position_embeddings=2)
        with pytest.raises(ValueError, match="from_tensor has rank 3, to_tensor 2"):
            modeling.attention_layer(x, matrix)
        with pytest.raises(ValueError, match="need batch_size, from_seq_length"):
            modeling.attention_layer(matrix, matrix, batch_size=2)
        with pytest.raises(ValueError, match="hidden_size 10"):
            modeling.transformer_model(x, hidden_size=10)
        with pytest.raises(ValueError, match=r"\(3,\) is of no matrix"):
            modeling.reshape_to_matrix(tf.zeros([3]))
