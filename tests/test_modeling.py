"""The encoder against golden figures, against `transformers`, and against NumPy in float64."""

import os

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import modeling
from runtime.devices import mask_seeds
from runtime.errors import UserError
from tests.helpers.encoders import (
    NUMPY_ACTIVATIONS,
    albert,
    assert_close,
    load_random_values,
    load_values,
    make_inputs,
    numpy_encode,
    numpy_gelu,
    run_golden,
    run_model,
    run_transformers,
)

# What the tests of names need is fast to build.
TINY = {"hidden_size": 12, "num_hidden_layers": 1, "intermediate_size": 6}


@pytest.fixture(scope="module")
def golden(shared):
    return run_golden(shared / "golden" / "albert_tiny")


@pytest.mark.each_python
def test_golden_outputs(golden):
    real = golden.figures["input_mask"] == 1
    assert_close(golden.embedding[real], golden.figures["embedding_output"][real], 1e-5)
    assert_close(golden.sequence[real], golden.figures["sequence_output"][real], 1e-5)
    assert_close(golden.pooled, golden.figures["pooled_output"], 1e-5)


@pytest.mark.each_python
def test_variables_are_those_of_the_golden_checkpoint(golden):
    """Names, with the default scope "bert", and shapes."""
    stored, summary = golden.stored, golden.summary
    assert golden.shapes == {n: s for n, s in stored.items() if n.startswith("bert/")}
    assert sorted(summary.taken) == sorted(golden.shapes)
    assert summary.new == []
    assert summary.unused == sorted(n for n in stored if n.startswith("cls/"))
    assert os.path.basename(summary.checkpoint) == "model.ckpt-best"


# Other implementations.


@pytest.mark.parametrize(
    ("changes", "forms"),
    [
        ({}, (False, True)),
        ({"num_hidden_layers": 4, "num_hidden_groups": 2}, (True,)),
        ({"num_hidden_groups": 3, "num_attention_heads": 1, "embedding_size": 30}, (False,)),
        ({"num_hidden_layers": 2, "num_attention_heads": 12, "intermediate_size": 10}, (True,)),
    ],
    ids=["1 group", "2 groups of 4 layers", "a group a layer, E > H", "12 heads"],
)
def test_equals_transformers(changes, forms, tmp_path):
    """In the forms with padding and without it."""
    config, inputs, path = albert(**changes), make_inputs(), tmp_path / "model.ckpt"
    found = [run_model(config, inputs, save_to=path, remove_padding=form) for form in forms]
    (_, *layers), pooled = run_transformers(config, path, inputs)
    for ours, removes_padding in zip(found, forms, strict=True):
        assert len(ours.layers) == len(layers) == config.num_hidden_layers
        counted = inputs[1][..., np.newaxis] if removes_padding else 1
        assert_close(ours.layers, [layer * counted for layer in layers], 1e-4)
        assert_close(ours.pooled, pooled, 1e-4)


@pytest.mark.parametrize(
    "changes",
    [
        {"num_hidden_layers": 2, "inner_group_num": 2, "hidden_act": "relu"},
        {"num_hidden_layers": 4, "num_hidden_groups": 2, "embedding_size": 24},
        {"num_hidden_layers": 1, "hidden_act": "linear", "type_vocab_size": 1},
    ],
    ids=["inner groups", "E = H", "a single row of segments, which adds nothing to segment 1"],
)
def test_equals_numpy_in_float64(changes):
    config, inputs = albert(**changes), make_inputs(seed=3)
    assert set(inputs[2].ravel()) == {0, 1}
    ours = run_model(config, inputs)
    embedding, layers, pooled = numpy_encode(config, ours.values, *inputs)
    assert len(ours.layers) == config.num_hidden_layers * config.inner_group_num
    assert_close(ours.embedding, embedding, 1e-4)
    assert_close(ours.layers, layers, 1e-4)
    assert_close(ours.pooled, pooled, 1e-4)
    np.testing.assert_array_equal(ours.sequence, ours.layers[-1])
    np.testing.assert_array_equal(ours.table, ours.values["bert/embeddings/word_embeddings"])
    np.testing.assert_array_equal(ours.words, ours.table[inputs[0]])


# Options and shapes.


@pytest.fixture(scope="module")
def plain():
    return run_model(albert(), make_inputs(), use_one_hot_embeddings=False, use_einsum=False)


@pytest.mark.parametrize(
    ("option", "op"), [("use_one_hot_embeddings", "OneHot"), ("use_einsum", "Einsum")]
)
def test_an_option_changes_ops_and_no_result(plain, option, op):
    off = {"use_one_hot_embeddings": False, "use_einsum": False}
    found = run_model(albert(), make_inputs(), **{**off, option: True})
    assert found.kinds[op] and not plain.kinds[op]
    assert_close(found.embedding, plain.embedding, 1e-6)
    assert_close(found.layers, plain.layers, 1e-5)
    assert_close(found.pooled, plain.pooled, 1e-5)


def test_without_mask_and_segments_all_is_attended_to_and_of_segment_0():
    config, ids = albert(num_hidden_layers=1), make_inputs()[0]
    ours = run_model(config, [ids])
    expected = numpy_encode(config, ours.values, ids, np.ones_like(ids), np.zeros_like(ids))
    assert_close(ours.layers, expected[1], 1e-4)
    assert_close(ours.pooled, expected[2], 1e-4)


def test_unknown_batch_size_and_length_give_the_same_result(plain):
    with tf.Graph().as_default(), tf.Session() as session:
        holders = [tf.placeholder(tf.int32, [None, None]) for _ in range(3)]
        model = modeling.AlbertModel(albert(), False, *holders)
        load_values(session, plain.values)
        feed = dict(zip(holders, make_inputs(), strict=True))
        output = session.run(model.get_sequence_output(), feed)
    assert model.get_pooled_output().shape.as_list() == [None, 24]
    # Other kernels for other shapes: a few units in the last place of values up to 3.
    assert_close(output, plain.sequence, 5e-6)


def test_longest_sequence_is_accepted_in_any_scope_and_a_longer_one_is_an_error():
    with tf.Graph().as_default():
        ids = tf.zeros([2, 20], tf.int32)
        model = modeling.AlbertModel(albert(**TINY), False, ids, scope="other")
        names = [v.op.name for v in tf.global_variables()]
        assert model.get_sequence_output().shape.as_list() == [2, 20, 12]
        with pytest.raises(UserError, match="21.*max_position_embeddings 20"):
            modeling.AlbertModel(albert(**TINY), False, tf.zeros([2, 21], tf.int32))
        with pytest.raises(UserError, match="hidden_size 25"):
            modeling.AlbertModel(albert(hidden_size=25), False, ids)
    assert "other/embeddings/word_embeddings" in names
    assert all(name.startswith("other/") for name in names)


# Dropout.


def draw_masks(seed, steps):
    """What dropout makes of ones at two places of a graph, a pair for every global step."""
    with tf.Graph().as_default(), tf.Session() as session:
        if seed is not None:
            tf.set_random_seed(seed)
        step = tf.train.get_or_create_global_step()
        places = [modeling.dropout(tf.ones([200, 200]), 0.3) for _ in range(2)]
        results = []
        for number in steps:
            step.load(number, session)
            results.append(session.run(places))
    return results


def test_dropout_mask_is_a_function_of_seed_step_and_place():
    (at_5, elsewhere), (at_6, _), (again_at_5, _) = draw_masks(seed=1, steps=[5, 6, 5])
    ((other_graph, _),) = draw_masks(seed=1, steps=[5])
    ((other_seed, _),) = draw_masks(seed=2, steps=[5])
    np.testing.assert_array_equal(at_5, again_at_5)
    np.testing.assert_array_equal(at_5, other_graph)
    for other in (at_6, elsewhere, other_seed):
        # Masks that are independent agree where both keep or both drop: 0.58 of the places.
        assert abs(((at_5 != 0) == (other != 0)).mean() - 0.58) < 0.02
    kept = at_5 != 0
    # 40,000 draws: the standard deviation of the share is 0.0023.
    assert abs(kept.mean() - 0.7) < 0.01
    np.testing.assert_allclose(at_5[kept], 1 / 0.7, rtol=1e-6)


def test_dropout_without_a_seed_differs_between_draws_and_without_a_rate_is_nothing():
    (first, _), (second, _) = draw_masks(seed=None, steps=[0, 0])
    assert (first != second).any()
    with tf.Graph().as_default():
        x = tf.ones([3])
        assert all(modeling.dropout(x, rate) is x for rate in (0, 0.0, None))


def outputs_at(steps, is_training, **rates):
    """The sequence outputs, at some global steps, of a seeded model with dropout."""
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(5)
        step = tf.train.get_or_create_global_step()
        config, ids = albert(num_hidden_layers=1, **rates), tf.constant(make_inputs()[0])
        output = modeling.AlbertModel(config, is_training, ids).get_sequence_output()
        load_random_values(session)
        outputs = []
        for number in steps:
            step.load(number, session)
            outputs.append(session.run(output))
    return outputs


def test_model_drops_out_in_training_only():
    rates = {"hidden_dropout_prob": 0.5, "attention_probs_dropout_prob": 0.5}
    (plain,), (predicted,) = outputs_at([3], True), outputs_at([3], False, **rates)
    np.testing.assert_array_equal(predicted, plain)
    for name in rates:
        dropped, later, again = outputs_at([3, 4, 3], True, **{name: 0.5})
        np.testing.assert_array_equal(dropped, again)
        assert np.abs(dropped - plain).max() > 0.1
        assert np.abs(dropped - later).max() > 0.1


def test_dropouts_have_places_of_their_own_which_a_model_that_is_built_again_has_too():
    """Two with one place would draw one mask; built again, between other operations and in another
    name scope, the model draws the same ones. The step stays outside: checkpoints have it there."""
    groups = {"num_hidden_layers": 2, "num_hidden_groups": 2, "inner_group_num": 2}
    config = albert(**groups, hidden_dropout_prob=0.5, attention_probs_dropout_prob=0.5)
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1)
        ids = tf.constant(make_inputs()[0])
        outputs, places = [], []
        for reuse in (False, True):
            with tf.variable_scope("", reuse=reuse), tf.name_scope("copy"):
                model = modeling.AlbertModel(config, True, ids, scope="bert")
            outputs.append(model.get_sequence_output())
            places.append(tf.get_collection(mask_seeds.PLACES))
            modeling.dropout(tf.random.normal([3]), 0.1)
        session.run(tf.global_variables_initializer())
        first, second = session.run(outputs)
        assert tf.train.get_or_create_global_step().op.name == "global_step"
    np.testing.assert_array_equal(first, second)
    blocks = [f"bert/encoder/layer_{i}/inner_group_{k}" for i in range(2) for k in range(2)]
    roles = ["attention_probabilities", "attention_output", "output"]
    assert places[0] == ["bert/embeddings/output", *(f"{b}/{r}" for b in blocks for r in roles)]


# Small functions.


def test_activations_equal_numpy():
    x = np.linspace(-6, 6, 101)
    expected = {"GELU": numpy_gelu, **NUMPY_ACTIVATIONS}
    with tf.Graph().as_default(), tf.Session() as session:
        inputs = tf.constant(x, tf.float32)
        found = session.run(
            {n: (modeling.get_activation(n) or tf.identity)(inputs) for n in expected}
        )
    for name, function in expected.items():
        assert_close(found[name], function(x), 1e-6)
    assert [modeling.get_activation(name) for name in ("linear", "", None)] == [None] * 3
    assert modeling.get_activation(tf.nn.elu) is tf.nn.elu
    with pytest.raises(ValueError, match="swoosh"):
        modeling.get_activation("swoosh")


def test_gradient_of_gelu_equals_numpy_in_float64():
    """Its own, which keeps fewer tensors."""
    x, dy = np.linspace(-6, 6, 1001), np.cos(np.arange(1001))
    with tf.Graph().as_default(), tf.Session() as session:
        inputs = tf.constant(x, tf.float32)
        (gradient,) = tf.gradients(modeling.gelu(inputs), inputs, tf.constant(dy, tf.float32))
        found = session.run(gradient)
    scale, cubic = np.sqrt(2 / np.pi), 0.044715
    tanh = np.tanh(scale * (x + cubic * x**3))
    slope = 0.5 * (1 + tanh) + 0.5 * x * (1 - tanh**2) * scale * (1 + 3 * cubic * x**2)
    # Where the tanh is nearly 1, float32 has no more digits: TensorFlow's gradient errs by 4e-6.
    np.testing.assert_allclose(found, dy * slope, atol=5e-6)


def test_initializer_is_a_truncated_normal():
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(3)
        values = session.run(modeling.create_initializer(0.5)([100, 100]))
    assert 0.9 < np.abs(values).max() <= 1.0
    # A normal distribution cut at two standard deviations has 0.8796 of the standard deviation.
    assert abs(values.std() / 0.5 - 0.8796) < 0.02
    assert abs(values.mean()) < 0.02


@pytest.mark.parametrize(
    ("x", "w", "inner", "equation"),
    [
        ([2, 3, 4], [4, 5], 1, "abc,cd->abd"),
        ([2, 3, 4], [4, 5, 6], 1, "abc,cde->abde"),
        ([2, 3, 4, 5], [4, 5, 6], 2, "abcd,cde->abe"),
        ([7, 4, 5], [4, 5, 2, 3], 2, "bcd,cdef->bef"),
    ],
)
def test_einsum_via_matmul(x, w, inner, equation):
    """With a batch of known size and of unknown size."""
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=x), rng.normal(size=w)
    outer = len(x) - inner
    with tf.Graph().as_default(), tf.Session() as session:
        holders = [tf.placeholder(tf.float32, b + x[outer:]) for b in (x[:outer], [None] * outer)]
        weights = tf.constant(right, tf.float32)
        products = [modeling.einsum_via_matmul(holder, weights, inner) for holder in holders]
        found = session.run(products, dict.fromkeys(holders, left))
    for result in found:
        assert_close(result, np.einsum(equation, left, right), 1e-5)


def test_shape_list_has_numbers_where_known_and_tensors_elsewhere():
    with tf.Graph().as_default(), tf.Session() as session:
        assert modeling.get_shape_list(tf.zeros([2, 3])) == [2, 3]
        holder = tf.placeholder(tf.float32, [None, 3, None])
        shape = modeling.get_shape_list(holder, expected_rank=[2, 3])
        assert shape[1] == 3
        assert session.run([shape[0], shape[2]], {holder: np.zeros([4, 3, 5])}) == [4, 5]
        tensor = tf.zeros([1, 2, 3], name="cube")
        for expected in (2, [1, 2], (4,)):
            with pytest.raises(ValueError, match="cube.* rank 3"):
                modeling.get_shape_list(tensor, expected_rank=expected)
            with pytest.raises(ValueError, match="my_name.* rank 3"):
                modeling.get_shape_list(tensor, expected, name="my_name")
