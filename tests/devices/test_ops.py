"""Layer normalization: its numbers."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from albert.devices import device, ops


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
