"""The head that tags words: figures from NumPy; tests/convert compares it with `transformers`."""

import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from albert.devices import ops
from albert.tasks.entities.head import make_head
from tests.helpers.sessions import quick_session

STATES = np.random.RandomState(1).standard_normal([3, 5, 16]).astype(np.float32)
# 0 for tokens that do not begin a word.
TAG_IDS = np.array([[0, 1, 4, 0, 0], [0, 2, 0, 3, 0], [0, 0, 0, 0, 0]], np.int32)


def run(is_training: bool, dropout: float = 0.0, states=STATES, tag_ids=TAG_IDS):
    """Returns outputs, variables, the gradient by the states, predictions and dropout's sites."""
    with tf.Graph().as_default(), quick_session() as session:
        tf.set_random_seed(5)
        tf.train.get_or_create_global_step()
        inputs = tf.constant(states)
        encoder = types.SimpleNamespace(get_sequence_output=lambda: inputs)
        features = {"tag_ids": tf.constant(tag_ids)}
        output = make_head(4, dropout)(lambda _: encoder, features, is_training)
        session.run(tf.global_variables_initializer())
        outputs = output.loss if is_training else output.exported
        gradient = tf.gradients(output.loss, inputs) if is_training else []
        variables = {v.op.name: v for v in tf.trainable_variables()}
        values = session.run((outputs, variables, gradient, output.predictions))
        return (*values, tf.get_collection(ops.SITES))


def softmax(states, head):
    logits = states.astype(np.float64) @ head["cls/ner/output_weights"].T
    return logits, np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)


def test_predictions_equal_numpy():
    exported, head, _, predictions, _ = run(is_training=False)
    sizes = {name: value.shape for name, value in head.items()}
    assert sizes == {"cls/ner/output_weights": (4, 16), "cls/ner/output_bias": (4,)}
    logits, shares = softmax(STATES, head)
    np.testing.assert_allclose(exported["logits"], logits, atol=1e-6)
    np.testing.assert_allclose(exported["probabilities"], shares, atol=1e-6)
    np.testing.assert_allclose(predictions["probabilities"], shares.max(axis=-1), atol=1e-6)
    for values in (exported, predictions):
        np.testing.assert_array_equal(values["predictions"], logits.argmax(axis=-1))


def test_the_loss_is_the_mean_over_first_pieces():
    """Other tokens, padding and their number have no share in the loss or the gradient."""
    loss, head, (gradient,), _, _ = run(is_training=True)
    _, shares = softmax(STATES, head)
    rows, columns = np.nonzero(TAG_IDS)
    true_shares = shares[rows, columns, TAG_IDS[rows, columns] - 1]
    assert loss == pytest.approx(-np.log(true_shares).mean(), abs=1e-6)
    assert (np.abs(gradient).sum(axis=-1) > 0).tolist() == (TAG_IDS > 0).tolist()
    longer = np.concatenate([STATES, np.ones([3, 7, 16], "f4")], axis=1)
    padded = np.concatenate([TAG_IDS, np.zeros([3, 7], "i4")], axis=1)
    assert run(True, states=longer, tag_ids=padded)[0] == pytest.approx(loss, abs=1e-6)
    assert run(True, tag_ids=np.zeros_like(TAG_IDS))[0] == 0.0
