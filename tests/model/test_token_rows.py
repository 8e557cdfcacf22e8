"""Layers that compute only real tokens: outputs and gradients equal those of the padded form."""

import functools
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from albert import modeling
from tests.helpers.encoders import albert, load_random_values

CONFIG = albert(num_hidden_layers=2, max_position_embeddings=80)


def make_mask(lengths, width, holes=()):
    mask = np.int32([[position < length for position in range(width)] for length in lengths])
    for row, position in holes:
        mask[row, position] = 0
    return mask


MASKS = {
    "lengths and holes": make_mask((40, 3, 17, 31, 1), 40, [(0, 5), (0, 6), (3, 20)]),
    "no padding": make_mask((32, 32), 32),
    # The number of tokens is a multiple of the number of rows.
    "full rows": make_mask((48, 16, 64), 64),
    "one token": make_mask((1,), 7),
    "an empty sequence": make_mask((0, 9), 9),
}


@functools.cache
def built(at_positions=False, **options):
    """Returns a model in a new session, with a function of its states and the gradients of that."""
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(3)
        inputs = [tf.placeholder(tf.int32, [None, None]) for _ in range(3)]
        positions = tf.placeholder(tf.int32, [None, None])
        if at_positions:
            options["positions"] = positions
        model = modeling.AlbertModel(CONFIG, True, *inputs, **options)
        states, factors = model.get_sequence_output(), tf.placeholder(tf.float32, [None] * 3)
        variables = [v for v in tf.trainable_variables() if "pooler" not in v.op.name]
        gradients = tf.gradients(tf.reduce_sum(tf.sin(states) * factors), variables)
        pairs = zip(variables, gradients, strict=True)
        named = {variable.op.name: tf.convert_to_tensor(g) for variable, g in pairs}
        session = tf.Session(graph=graph)
        load_random_values(session, spread=0.3)
    holders = [*inputs, positions, factors]
    return types.SimpleNamespace(session=session, holders=holders, outputs=[states, named])


def run(mask, factors, positions=((0,),), **options):
    """Returns states, and gradients by variable; `positions`, [B, P], select some of the states."""
    rng = np.random.RandomState(4)
    ids, segments = rng.randint(1, 50, mask.shape), rng.randint(0, 2, mask.shape)
    model = built(**options)
    values = ids, mask, segments, positions, factors
    return model.session.run(model.outputs, dict(zip(model.holders, values, strict=True)))


def assert_same_gradients(gradients, expected_gradients):
    for name, gradient in expected_gradients.items():
        # A key's bias has only rounding errors, which the gradient of its kernel bounds.
        scope = name.rpartition("/")[0]
        scope_gradients = (g for n, g in expected_gradients.items() if n.startswith(scope))
        scale = max(np.abs(g).max() for g in scope_gradients) or 1.0
        np.testing.assert_allclose(gradients[name] / scale, gradient / scale, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "recomputes"), [*((name, False) for name in MASKS), ("lengths and holes", True)]
)
def test_states_and_gradients_equal_the_padded_form(name, recomputes):
    mask, real = MASKS[name], MASKS[name] == 1
    factors = np.random.RandomState(5).randn(*mask.shape, CONFIG.hidden_size) * real[..., None]
    options = {"remove_padding": True, "gradient_checkpointing": recomputes}
    states, gradients = run(mask, factors, **options)
    expected, expected_gradients = run(mask, factors)
    np.testing.assert_allclose(states[real], expected[real], atol=1e-5)
    assert not states[~real].any()
    assert_same_gradients(gradients, expected_gradients)


@pytest.mark.parametrize(
    ("remove_padding", "recomputes"), [(False, False), (True, False), (True, True)]
)
def test_the_last_layer_can_compute_only_some_positions(remove_padding, recomputes):
    mask, options = MASKS["lengths and holes"], {"gradient_checkpointing": recomputes}
    rows = np.arange(len(mask))[:, np.newaxis]
    for positions in ([(0,)] * 5, [(0, 4), (0, 0), (0, 3), (0, 4), (0, 0)]):
        factors = np.random.RandomState(5).randn(*np.shape(positions), CONFIG.hidden_size)
        options |= {"at_positions": True, "remove_padding": remove_padding}
        states, gradients = run(mask, factors, positions, **options)
        all_factors = np.zeros([*mask.shape, CONFIG.hidden_size])
        np.add.at(all_factors, (rows, positions), factors)
        expected, expected_gradients = run(mask, all_factors)
        np.testing.assert_allclose(states, expected[rows, positions], atol=1e-5)
        assert_same_gradients(gradients, expected_gradients)
