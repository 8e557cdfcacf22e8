"""Dropout masks, what they depend on and what leaves them unchanged, and layer normalization."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from albert import optimization
from albert.devices import device, ops

SHAPE = (100, 100)


def draw(build, seed=1, step=0):
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(seed)
        global_step = tf.train.get_or_create_global_step()
        fetches = build()
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        global_step.load(step, session)
        return session.run(fetches)


def mask(site=None):
    return ops.dropout(tf.ones(SHAPE), 0.5, site)


def assert_independent(masks):
    """Checks that any two masks with a rate of 0.5 agree in half of their elements."""
    kept = [m != 0 for m in masks]
    for i, one in enumerate(kept):
        for other in kept[:i]:
            assert abs((one == other).mean() - 0.5) < 0.03


def test_a_mask_depends_on_site_seed_and_step():
    """A site has one mask, so that a recomputed layer draws the same one."""
    first, other, again = draw(lambda: [mask("a"), mask("b"), mask("a")], 1, 10**9)
    np.testing.assert_array_equal(first, again)
    sites = [(seed, step) for seed in (1, 2) for step in (0, 1, 2, 10**6, 10**9)]
    masks = {site: draw(lambda: mask("a"), *site) for site in sites}
    np.testing.assert_array_equal(masks[1, 10**9], first)
    assert_independent([other, *masks.values()])


def test_operations_elsewhere_do_not_change_masks():
    def after_others():
        tf.get_variable("w", [3])
        tf.random.normal([2])
        with tf.name_scope("layer"), tf.variable_scope("layer"):
            others = [mask(), mask("other")]
        with tf.name_scope("layer"):
            return [mask("a"), mask(), *others]

    named, unnamed = draw(lambda: [mask("a"), mask()])
    also_named, also_unnamed, *others = draw(after_others)
    np.testing.assert_array_equal(named, also_named)
    np.testing.assert_array_equal(unnamed, also_unnamed)
    assert_independent([named, unnamed, *others])


def test_site_seeds_never_change():
    """Checkpoints outlive versions of the program, and a resumed run must draw the same masks."""
    with tf.Graph().as_default():
        numbers = [ops.site_seed(*a) for a in ((1, "a"), (1, "b"), (2, "a"))]
    assert numbers == [1087620361, 967273114, 1508609807]
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(1)
        for scope in ("head", "head", "tail"):
            with tf.variable_scope(scope), tf.name_scope("anything"):
                mask()
        mask()
        assert graph.get_collection(ops.SITES) == [
            *("head/dropout_0", "head/dropout_1", "tail/dropout_0", "/dropout_0")
        ]


def test_each_micro_batch_has_its_own_masks():
    """A run that begins at the second step has the masks of that step."""
    runs = 3

    def masks_from(step, count):
        with tf.Graph().as_default(), tf.Session() as session:
            tf.set_random_seed(1)
            weights = tf.get_variable("w", initializer=tf.ones(SHAPE))
            with tf.variable_scope("layer"):
                dropped = ops.dropout(tf.ones(SHAPE), 0.5, "a")
            options = optimization.OptimizerOptions(0.1, 10, gradient_accumulation_steps=runs)
            train_op = optimization.build_train_step(tf.reduce_sum(weights * dropped), options).op
            session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            tf.train.get_global_step().load(step, session)
            return [session.run([dropped, train_op])[0] for _ in range(count)]

    masks = masks_from(0, 2 * runs)
    assert_independent(masks)
    np.testing.assert_array_equal(masks[runs:], masks_from(1, runs))


def test_a_session_without_local_variables():
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1)
        dropped = mask("a")
        session.run(tf.global_variables_initializer())
        np.testing.assert_array_equal(session.run(dropped), draw(lambda: mask("a")))


def test_without_a_seed_every_draw_is_another():
    with tf.Graph().as_default(), tf.Session() as session:
        dropped = mask("a")
        assert_independent([session.run(dropped) for _ in range(3)])
        assert not tf.global_variables() and not tf.local_variables()


@pytest.mark.parametrize("shape", [[7], [2, 7], [2, 3, 7]])
def test_layer_norm_is_that_of_the_paper(shape):
    """A small variance shows another epsilon than 1e-12, such as that of a fusion."""
    rng = np.random.default_rng(0)
    x, gamma, beta = (rng.normal(size=n).astype(np.float32) for n in ([*shape, 64], 64, 64))
    x[..., 0, :] *= 1e-4
    with tf.Graph().as_default(), tf.Session(config=device.session_config()) as session:
        inputs = [tf.placeholder(tf.float32, value.shape) for value in (x, gamma, beta)]
        feed = dict(zip(inputs, (x, gamma, beta), strict=True))
        result = session.run(ops.layer_norm(*inputs, 1e-12), feed)
    exact = x.astype(np.float64) - x.astype(np.float64).mean(-1, keepdims=True)
    exact /= np.sqrt((exact**2).mean(-1, keepdims=True) + 1e-12)
    np.testing.assert_allclose(result, exact * gamma + beta, rtol=0, atol=3e-6)
