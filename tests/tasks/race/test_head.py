"""The head of RACE: figures from NumPy and the variables, for both layouts of features."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from albert.modeling import AlbertModel
from albert.race_utils import create_model
from tests.helpers.sessions import quick_session
from tests.helpers.squad_head import CONFIG

LENGTH, SIZE = 10, 3
LABELS = np.array([3, 0, 2], np.int32)


def batch(shape):
    rng = np.random.RandomState(1)
    ids = rng.randint(5, 60, [SIZE, 4, LENGTH]).astype(np.int32)
    mask = (np.arange(LENGTH) < rng.randint(4, 11, [SIZE, 4, 1])).astype(np.int32)
    segments = mask * (np.arange(LENGTH) > 3).astype(np.int32)
    return [values.reshape(shape) for values in (ids, mask, segments)]


@pytest.mark.parametrize("shape", [[SIZE, 4, LENGTH], [SIZE, 4 * LENGTH]])
def test_each_option_has_one_score(shape):
    with tf.Graph().as_default(), quick_session() as session:
        tf.set_random_seed(5)
        inputs = map(tf.constant, batch(shape))
        results = create_model(
            CONFIG, False, *inputs, tf.constant(LABELS), 4, False, LENGTH, 0.1, None
        )
        with tf.variable_scope("", reuse=True):
            rows = map(tf.constant, batch([SIZE * 4, LENGTH]))
            pooled = AlbertModel(CONFIG, False, *rows, scope="bert").get_pooled_output()
        session.run(tf.global_variables_initializer())
        head = {v.op.name: session.run(v) for v in tf.trainable_variables() if "bert" not in v.name}
        (loss, losses, probabilities, logits, predictions), pooled = session.run([results, pooled])
    shapes = {name: value.shape for name, value in head.items()}
    assert shapes == {"output_weights": (1, 16), "output_bias": (1,)}
    expected = (pooled.astype(np.float64) @ head["output_weights"].T).reshape(SIZE, 4)
    np.testing.assert_allclose(logits, expected, atol=1e-6)
    shares = np.exp(expected) / np.exp(expected).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(probabilities, shares, atol=1e-6)
    np.testing.assert_allclose(losses, -np.log(shares[np.arange(SIZE), LABELS]), atol=1e-6)
    assert loss == pytest.approx(losses.mean(), abs=1e-6)
    assert predictions.tolist() == expected.argmax(axis=1).tolist()
