"""The classification head: figures from NumPy and the variables, and its outputs."""

import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from albert.devices import ops
from albert.tasks.classification.head import classified, classify, make_head
from tests.helpers.sessions import quick_session

POOLED = np.random.RandomState(1).standard_normal([6, 16]).astype(np.float32)
CLASSES = np.array([0, 1, 2, 0, 1, 2], np.int32)


def assert_outputs(num_labels, labels, threshold=None):
    """Compares outputs with NumPy's, the loss as in `transformers`; returns the probabilities."""
    with tf.Graph().as_default(), quick_session() as session:
        tf.set_random_seed(5)
        output = classify(tf.constant(POOLED), tf.constant(labels), 0.0, num_labels, threshold)
        session.run(tf.global_variables_initializer())
        variables = {v.op.name: v for v in tf.trainable_variables()}
        values, head = session.run([{"loss": output.loss, **output._asdict()}, variables])
    shapes = {name: value.shape for name, value in head.items()}
    assert shapes == {"output_weights": (num_labels, 16), "output_bias": (num_labels,)}
    assert not head["output_bias"].any()
    assert num_labels == 1 or 0.005 < head["output_weights"].std() < 0.03
    logits = POOLED.astype(np.float64) @ head["output_weights"].T
    if num_labels == 1:
        logits = shares = predictions = logits[:, 0]
        losses = np.square(logits - labels)
    elif threshold is None:
        shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        losses, predictions = -np.log(shares[np.arange(6), labels]), logits.argmax(axis=1)
    else:
        shares = 1 / (1 + np.exp(-logits))
        losses = -np.where(labels, np.log(shares), np.log(1 - shares)).mean(axis=1)
        predictions = shares >= threshold
    expected = {"logits": logits, "losses": losses, "predictions": predictions}
    expected |= {"probabilities": shares.reshape(6, -1), "loss": losses.mean()}
    assert values.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(values[name], value, atol=1e-5 if "loss" in name else 1e-6)
    return shares


@pytest.mark.parametrize(
    ("num_labels", "labels"), [(3, CLASSES), (1, np.array([0, 1.5, 2, 5, 4, 3], np.float32))]
)
def test_a_label_or_a_number_equals_numpy(num_labels, labels):
    assert_outputs(num_labels, labels)


def test_several_labels_equal_numpy():
    labels = np.array([[0, 0, 1], [1, 1, 1], [0, 0, 0], [1, 0, 1], [0, 1, 0], [1, 0, 0]], np.int32)
    shares = assert_outputs(3, labels, threshold=0.49)
    assert 0 < (shares >= 0.49).mean() < 1 and ((shares >= 0.49) != (shares >= 0.5)).any()


def test_weights_of_classes_give_the_weighted_mean():
    logits = np.random.RandomState(2).standard_normal([6, 3]).astype(np.float32)
    weights = np.array([0.5, 3.0, 1.25])
    with tf.Graph().as_default(), quick_session() as session:
        loss = classified(tf.constant(logits), tf.constant(CLASSES), [*weights]).loss
        gradient = tf.gradients(loss, tf.get_default_graph().get_operations()[0].outputs[0])
        value, gradient = session.run([loss, gradient[0]])
    shares = np.exp(logits.astype(np.float64))
    shares /= shares.sum(axis=1, keepdims=True)
    # As torch.nn.CrossEntropyLoss(weight=...) with its default reduction.
    own = weights[CLASSES] / weights[CLASSES].sum()
    np.testing.assert_allclose(value, -own @ np.log(shares[np.arange(6), CLASSES]), rtol=1e-6)
    expected = own[:, np.newaxis] * (shares - np.eye(3)[CLASSES])
    np.testing.assert_allclose(gradient, expected, atol=1e-7)


@pytest.mark.parametrize(
    ("is_training", "dropout", "sites"),
    [(True, 0.1, ["classifier"]), (True, 0.0, []), (False, 0.1, [])],
)
def test_dropout_is_only_in_training(is_training, dropout, sites):
    with tf.Graph().as_default():
        tf.set_random_seed(5)
        encoder = types.SimpleNamespace(get_pooled_output=lambda: tf.constant(POOLED))
        features = {"label_ids": tf.constant(CLASSES)}
        make_head(3, dropout)(lambda *_: encoder, features, is_training)
        assert tf.get_collection(ops.SITES) == sites
