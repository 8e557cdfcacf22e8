"""The building blocks under the reference's names, against NumPy in float64 and the model."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import modeling
from runtime.errors import UserError
from tests.test_modeling import (
    assert_close,
    make_config,
    make_inputs,
    numpy_attention,
    numpy_dense,
    numpy_encode,
    numpy_gelu,
    numpy_layer_norm,
    numpy_softmax,
    random_values,
    run_model,
)


def run_with_random_values(build, seed=1):
    """What `build` makes with random weights, in a graph of its own, and those weights."""
    with tf.Graph().as_default(), tf.Session() as session:
        outputs = build()
        variables = tf.trainable_variables()
        values = random_values(variables, seed)
        for variable in variables:
            variable.load(values[variable.op.name], session)
        return session.run(outputs), values


class TestAsTheModelUsesThem:
    """The functions one after the other are the model: the same variables, the same outputs."""

    @pytest.fixture(scope="class")
    def config(self):
        return make_config(num_hidden_layers=4, num_hidden_groups=2, inner_group_num=2)

    @staticmethod
    def build(config, ids, mask, segments):
        sizes = {
            name: getattr(config, name)
            for name in (
                *("hidden_size", "num_hidden_layers", "num_hidden_groups", "num_attention_heads"),
                *("intermediate_size", "inner_group_num", "initializer_range"),
            )
        }
        with tf.variable_scope("bert"):
            with tf.variable_scope("embeddings"):
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
            with tf.variable_scope("encoder"):
                layers = modeling.transformer_model(
                    embedding,
                    tf.constant(mask),
                    **sizes,
                    intermediate_act_fn=modeling.gelu,
                    hidden_dropout_prob=0.0,
                    attention_probs_dropout_prob=0.0,
                    do_return_all_layers=True,
                )
        return words, table, embedding, layers

    def test_variables_and_outputs(self, config):
        inputs = make_inputs()
        (words, table, embedding, layers), values = run_with_random_values(
            lambda: self.build(config, *inputs)
        )
        model = run_model(config, inputs)
        pooler = {"bert/pooler/dense/kernel", "bert/pooler/dense/bias"}
        shapes = {name: value.shape for name, value in values.items()}
        assert shapes == {n: v.shape for n, v in model.values.items() if n not in pooler}
        expected_embedding, expected_layers, _ = numpy_encode(
            config, {**model.values, **values}, *inputs
        )
        np.testing.assert_array_equal(words, table[inputs[0]])
        assert_close(embedding, expected_embedding, 1e-4)
        assert len(layers) == 8
        assert_close(layers, expected_layers, 1e-4)

    def test_golden(self, shared):
        folder = shared / "golden" / "albert_tiny"
        figures = np.load(folder / "encoder.npz")
        config = modeling.AlbertConfig.from_json_file(str(folder / "albert_config.json"))
        inputs = [figures[name] for name in ("input_ids", "input_mask", "segment_ids")]
        with tf.Graph().as_default(), tf.Session() as session:
            layers = self.build(config, *inputs)[-1]
            summary = modeling.initialize_from_checkpoint(tf.trainable_variables(), str(folder))
            session.run(tf.global_variables_initializer())
            sequence = session.run(layers[-1])
        assert summary.new == []
        real = inputs[1] == 1
        assert_close(sequence[real], figures["sequence_output"][real], 1e-5)


class TestEmbeddings:
    def test_names_of_tables_and_one_hot(self):
        ids = make_inputs()[0]

        def build():
            return [
                modeling.embedding_lookup(
                    tf.constant(ids),
                    50,
                    7,
                    word_embedding_name=name,
                    use_one_hot_embeddings=one_hot,
                )
                for name, one_hot in (("chars", True), ("words", False))
            ]

        found, values = run_with_random_values(build)
        assert {name: value.shape for name, value in values.items()} == {
            "chars": (50, 7),
            "words": (50, 7),
        }
        for (rows, table), name in zip(found, ("chars", "words"), strict=True):
            np.testing.assert_array_equal(table, values[name])
            assert_close(rows, values[name][ids], 1e-7)

    def test_other_ranks_than_2_are_an_error(self):
        with tf.Graph().as_default(), pytest.raises(ValueError, match="rank 3"):
            modeling.embedding_lookup(tf.zeros([2, 3, 1], tf.int32), 50)

    @pytest.mark.parametrize("types", [True, False])
    @pytest.mark.parametrize("positions", [True, False])
    def test_what_is_added(self, types, positions):
        x = np.random.default_rng(2).normal(size=[3, 5, 8]).astype("f4")
        segments = make_inputs(3, 5)[2]

        def build():
            return modeling.embedding_postprocessor(
                tf.constant(x),
                use_token_type=types,
                token_type_ids=tf.constant(segments),
                token_type_embedding_name="kinds",
                use_position_embeddings=positions,
                position_embedding_name="places",
                dropout_prob=None,
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

    def test_dropout(self):
        with tf.Graph().as_default(), tf.Session() as session:
            output = modeling.embedding_postprocessor(tf.ones([4, 20, 50]), dropout_prob=0.5)
            session.run(tf.global_variables_initializer())
            dropped = session.run(output) == 0
        assert 0.45 < dropped.mean() < 0.55

    def test_errors(self):
        with tf.Graph().as_default():
            with pytest.raises(ValueError, match="use_token_type needs token_type_ids"):
                modeling.embedding_postprocessor(tf.zeros([2, 3, 4]), use_token_type=True)
            with pytest.raises(UserError, match="3 is more than .*max_position_embeddings 2"):
                modeling.embedding_postprocessor(tf.zeros([2, 3, 4]), max_position_embeddings=2)

    def test_initializer_range(self):
        with tf.Graph().as_default(), tf.Session() as session:
            words, _ = modeling.embedding_lookup(
                tf.zeros([2, 3], tf.int32), 100, 50, initializer_range=0.5
            )
            modeling.embedding_postprocessor(
                words, True, tf.zeros([2, 3], tf.int32), initializer_range=0.25
            )
            session.run(tf.global_variables_initializer())
            spread = {
                v.op.name: session.run(v).std()
                for v in tf.trainable_variables()
                if "LayerNorm" not in v.op.name
            }
        # A normal distribution cut off at two standard deviations has 0.88 of the spread.
        assert spread == pytest.approx(
            {
                "word_embeddings": 0.44,
                "token_type_embeddings": 0.22,
                "position_embeddings": 0.22,
            },
            rel=0.08,
        )


class TestAttentionLayer:
    HEADS = 3

    @staticmethod
    def inputs(to_length=6, to_width=10):
        rng = np.random.default_rng(4)
        mask = (rng.random([2, to_length]) > 0.4).astype("i4")
        mask[:, 0] = 1
        return (
            rng.normal(size=[2, 5, 12]).astype("f4"),
            rng.normal(size=[2, to_length, to_width]).astype("f4"),
            mask,
        )

    def expected(self, x, y, mask, w, acts=(None, None, None)):
        """In float64, [B, F, N, D]."""
        query, key, value = (
            (act or (lambda h: h))(numpy_dense(states.astype("f8"), w, name)).reshape(
                *states.shape[:2], self.HEADS, -1
            )
            for name, states, act in zip(("query", "key", "value"), (x, y, y), acts, strict=True)
        )
        scores = np.einsum("bfnd,btnd->bnft", query, key) / np.sqrt(query.shape[-1])
        if mask is not None:
            scores = np.where(mask[:, None, None, :] == 1, scores, -np.inf)
        return np.einsum("bnft,btnd->bfnd", numpy_softmax(scores), value)

    @pytest.mark.parametrize("masked", [True, False])
    @pytest.mark.parametrize("use_einsum", [True, False])
    def test_from_one_sequence_to_another(self, masked, use_einsum):
        x, y, mask = self.inputs()
        mask = mask if masked else None
        found, w = run_with_random_values(
            lambda: modeling.attention_layer(
                tf.constant(x), tf.constant(y), mask, self.HEADS, use_einsum=use_einsum
            )
        )
        assert {name: value.shape for name, value in w.items() if "kernel" in name} == {
            "query/kernel": (12, 12),
            "key/kernel": (10, 12),
            "value/kernel": (10, 12),
        }
        assert found.shape == (2, 5, 3, 4)
        assert_close(found, self.expected(x, y, mask, w), 1e-5)

    def test_to_itself_is_the_models(self):
        x, _, _ = self.inputs()
        mask = make_inputs(2, 5)[1]
        found, w = run_with_random_values(
            lambda: modeling.attention_layer(tf.constant(x), tf.constant(x), mask, self.HEADS)
        )
        scoped = {f"self/{name}": value for name, value in w.items()}
        expected = numpy_attention(x.astype("f8"), mask, scoped, "self", self.HEADS)
        assert_close(found.reshape(x.shape), expected, 1e-5)

    def test_matrices_and_activations(self):
        x, y, mask = self.inputs()
        acts = {"query_act": tf.tanh, "key_act": tf.nn.relu, "value_act": modeling.gelu}
        found, w = run_with_random_values(
            lambda: modeling.attention_layer(
                *(tf.constant(a.reshape(-1, a.shape[-1])) for a in (x, y)),
                mask,
                self.HEADS,
                batch_size=2,
                from_seq_length=5,
                to_seq_length=6,
                **acts,
            )
        )
        acts = (np.tanh, lambda h: np.maximum(h, 0), numpy_gelu)
        assert_close(found, self.expected(x, y, mask, w, acts), 1e-5)

    def test_dropout_of_the_probabilities(self):
        x, y, _ = self.inputs()
        with tf.Graph().as_default(), tf.Session() as session:
            output = modeling.attention_layer(
                tf.constant(x), tf.constant(y), attention_probs_dropout_prob=0.5
            )
            session.run(tf.global_variables_initializer())
            assert not np.array_equal(session.run(output), session.run(output))

    def test_errors(self):
        with tf.Graph().as_default():
            with pytest.raises(ValueError, match="from_tensor has rank 3, to_tensor 2"):
                modeling.attention_layer(tf.zeros([2, 3, 4]), tf.zeros([6, 4]))
            with pytest.raises(ValueError, match="need batch_size, from_seq_length"):
                modeling.attention_layer(tf.zeros([6, 4]), tf.zeros([6, 4]), batch_size=2)


class TestTransformerModel:
    def test_without_a_mask_all_is_attended_to(self):
        x = np.random.default_rng(3).normal(size=[2, 5, 8]).astype("f4")
        sizes = {"hidden_size": 8, "num_hidden_layers": 2, "num_hidden_groups": 1}
        sizes |= {"num_attention_heads": 2, "intermediate_size": 6}
        none = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}

        def build(mask, **more):
            return lambda: modeling.transformer_model(tf.constant(x), mask, **sizes, **none, **more)

        last, values = run_with_random_values(build(None))
        layers, _ = run_with_random_values(build(np.ones([2, 5], "i4"), do_return_all_layers=True))
        np.testing.assert_array_equal(last, layers[-1])
        assert len(layers) == 2
        # As wide as the encoder, the input needs no layer of its own.
        assert all(name.startswith("transformer/group_0/") for name in values)

    def test_dropout_is_on_by_default(self):
        with tf.Graph().as_default(), tf.Session() as session:
            output = modeling.transformer_model(
                tf.ones([2, 5, 8]),
                hidden_size=8,
                num_hidden_layers=1,
                num_hidden_groups=1,
                num_attention_heads=2,
                intermediate_size=6,
            )
            session.run(tf.global_variables_initializer())
            assert not np.array_equal(session.run(output), session.run(output))

    def test_impossible_sizes(self):
        with tf.Graph().as_default(), pytest.raises(ValueError, match="hidden_size 10"):
            modeling.transformer_model(tf.zeros([2, 3, 4]), hidden_size=10)


class TestShapes:
    def test_to_a_matrix_and_back(self):
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

    def test_no_matrix(self):
        with tf.Graph().as_default(), pytest.raises(ValueError, match=r"\(3,\) is of no matrix"):
            modeling.reshape_to_matrix(tf.zeros([3]))

    def test_assert_rank(self):
        with tf.Graph().as_default():
            x = tf.zeros([2, 3])
            modeling.assert_rank(x, 2)
            modeling.assert_rank(x, [2, 3])
            with pytest.raises(ValueError, match=r"`ids` .*rank 2 .*expected \[1, 3\]"):
                modeling.assert_rank(x, [1, 3], name="ids")

    def test_layer_norm_and_dropout(self):
        x = np.random.default_rng(5).normal(size=[4, 8]).astype("f4")

        def build():
            return modeling.layer_norm_and_dropout(tf.constant(x), 0.0, "Norm")

        found, values = run_with_random_values(build)
        assert_close(found, numpy_layer_norm(x.astype("f8"), values, "Norm"), 1e-5)
        with tf.Graph().as_default(), tf.Session() as session:
            dropped = modeling.layer_norm_and_dropout(tf.ones([100, 100]) * 2.0, 0.25)
            session.run(tf.global_variables_initializer())
            tf.trainable_variables()[0].load(np.ones(100, "f4"), session)
            assert 0.2 < (session.run(dropped) == 0).mean() < 0.3


def test_tables_of_the_model_have_the_configurations_spread():
    """The tables' initializers follow `initializer_range`, as do the kernels'."""
    config = make_config(initializer_range=0.3, embedding_size=60, max_position_embeddings=100)
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1)
        modeling.AlbertModel(config, False, tf.zeros([2, 5], tf.int32))
        session.run(tf.global_variables_initializer())
        spread = {
            v.op.name: session.run(v).std()
            for v in tf.trainable_variables()
            if v.op.name.endswith(("embeddings", "kernel"))
        }
    assert len([name for name in spread if name.endswith("embeddings")]) == 3
    assert len(spread) > 6
    # A normal distribution cut off at two standard deviations has 0.88 of the spread.
    assert spread == pytest.approx(dict.fromkeys(spread, 0.88 * 0.3), rel=0.12)
