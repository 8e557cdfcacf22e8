"""Layers on real tokens alone: what the padded form gives for them, and its gradients."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import modeling
from token_rows import PackedRows

CONFIG = modeling.AlbertConfig(
    vocab_size=50,
    embedding_size=8,
    hidden_size=16,
    num_hidden_layers=3,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=80,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
    initializer_range=0.2,
)


def make_mask(lengths, width, holes=()):
    mask = np.int32([[place < length for place in range(width)] for length in lengths])
    for row, place in holes:
        mask[row, place] = 0
    return mask


MASKS = {
    "lengths and holes": make_mask((40, 3, 17, 31, 1), 40, [(0, 5), (0, 6), (3, 20)]),
    "no padding": make_mask((32, 32), 32),
    # The number of tokens is a multiple of that of rows, and the longest one of that of lengths.
    "full rows": make_mask((48, 16, 64), 64),
    "one token": make_mask((1,), 7),
    "an empty sequence": make_mask((0, 9), 9),
}


def run(mask, wanted=None, **options):
    """States and gradients of a function of those of real tokens, by variable.

    With `wanted`, positions [B, P], both are of these alone; so they are with `positions`.
    """
    rng = np.random.RandomState(4)
    ids, segments = rng.randint(1, 50, mask.shape), rng.randint(0, 2, mask.shape)
    factors = rng.randn(*mask.shape, 16) * mask[..., np.newaxis]
    chosen = wanted if wanted is not None else options.get("positions")
    if chosen is not None:
        factors = np.take_along_axis(factors, chosen[..., np.newaxis], axis=1)
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(3)
        inputs = [tf.placeholder(tf.int32, [None, None]) for _ in range(3)]
        model = modeling.AlbertModel(CONFIG, True, *inputs, **options)
        states = model.get_sequence_output()
        if wanted is not None:
            states = tf.gather(states, wanted, batch_dims=1)
        loss = tf.reduce_sum(tf.sin(states) * factors)
        variables = [v for v in tf.trainable_variables() if "pooler" not in v.op.name]
        gradients = [tf.convert_to_tensor(g) for g in tf.gradients(loss, variables)]
        for number, variable in enumerate(variables):
            values = np.random.RandomState(number).randn(*variable.shape) * 0.3
            variable.load(values + ("gamma" in variable.op.name), session)
        found = session.run(
            [states, gradients], dict(zip(inputs, (ids, mask, segments), strict=True))
        )
    return found[0], dict(zip([v.op.name for v in variables], found[1], strict=True))


@pytest.mark.parametrize("checkpointing", [False, True], ids=["", "recomputed"])
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_equals_the_padded_form(mask, checkpointing):
    (states, gradients), (expected, expected_gradients) = (
        run(mask, remove_padding=True, gradient_checkpointing=checkpointing),
        run(mask),
    )
    real = mask == 1
    np.testing.assert_allclose(states[real], expected[real], atol=1e-5)
    assert not states[~real].any()
    assert_same_gradients(gradients, expected_gradients)


def assert_same_gradients(gradients, expected_gradients):
    for name, gradient in expected_gradients.items():
        # The gradient of a key's bias is 0 but for rounding: that of the kernel is its measure.
        of_scope = (
            g for n, g in expected_gradients.items() if n.startswith(name.rpartition("/")[0])
        )
        scale = max(np.abs(g).max() for g in of_scope) or 1.0
        np.testing.assert_allclose(gradients[name] / scale, gradient / scale, atol=1e-5)


@pytest.mark.parametrize("checkpointing", [False, True], ids=["", "recomputed"])
@pytest.mark.parametrize("remove_padding", [False, True], ids=["padded", "packed"])
@pytest.mark.parametrize(
    "positions", [[(0,)] * 5, [(0, 4), (0, 0), (0, 3), (0, 4), (0, 0)]], ids=["first", "several"]
)
def test_the_last_layer_at_some_positions_alone(positions, remove_padding, checkpointing):
    mask, positions = MASKS["lengths and holes"], np.int32(positions)
    (states, gradients), (expected, expected_gradients) = (
        run(
            mask,
            positions=positions,
            remove_padding=remove_padding,
            gradient_checkpointing=checkpointing,
        ),
        run(mask, wanted=positions),
    )
    np.testing.assert_allclose(states, expected, atol=1e-5)
    assert_same_gradients(gradients, expected_gradients)


def test_one_position_of_all_sequences():
    """Has as many rows behind the last attention as there are sequences."""
    with tf.Graph().as_default():
        ids = tf.ones([6, 20], tf.int32)
        model = modeling.AlbertModel(CONFIG, False, ids, positions=tf.zeros([1, 1], tf.int32))
        products = [o for o in tf.get_default_graph().get_operations() if o.type == "Einsum"]
        rows = [o.outputs[0].shape[0] for o in products if "/layer_2/" in o.name]
    assert model.get_sequence_output().shape == (6, 1, 16)
    assert sorted(rows) == [6] * 3 + [6 * 20] * 3


def test_the_number_of_rows_follows_the_tokens():
    """In steps, so that few shapes occur."""
    with tf.Graph().as_default(), tf.Session() as session:
        mask = tf.placeholder(tf.int32, [None, None])
        rows = PackedRows(mask, num_heads=2).rows(
            tf.ones([tf.shape(mask)[0], tf.shape(mask)[1], 4])
        )
        sizes = [
            session.run(rows, {mask: make_mask(lengths, 100)}).shape
            for lengths in ((1, 1), (30, 33), (64,), (64, 64, 99))
        ]
    assert sizes == [(64, 4), (64, 4), (128, 4), (256, 4)]


def test_dropout_reaches_real_tokens_alone():
    """And draws one mask, forward and backward, so that gradients are finite and repeat."""
    config = modeling.AlbertConfig(**{**CONFIG.to_dict(), "hidden_dropout_prob": 0.5})
    mask = MASKS["lengths and holes"]
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(3)
        ids = tf.constant(mask * 7)
        model = modeling.AlbertModel(config, True, ids, tf.constant(mask), remove_padding=True)
        states = model.get_sequence_output()
        gradients = [
            tf.convert_to_tensor(g)
            for g in tf.gradients(tf.reduce_sum(tf.square(states)), tf.trainable_variables())
            if g is not None
        ]
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        one, two = (session.run([states, gradients]) for _ in range(2))
    assert not one[0][mask == 0].any()
    for first, second in zip(one[1], two[1], strict=True):
        assert np.isfinite(first).all()
        np.testing.assert_array_equal(first, second)
