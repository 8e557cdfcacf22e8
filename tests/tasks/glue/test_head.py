"""The classification head: figures from NumPy and the variables, and its outputs."""

import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from albert.tasks.glue.head import classify, make_head
from tests.helpers.sessions import quick_session

POOLED = np.random.RandomState(1).standard_normal([6, 16]).astype(np.float32)
CLASSES = np.array([0, 1, 2, 0, 1, 2], np.int32)


def runs_of(build, count=1):
    """Returns the outputs on `POOLED` at some steps, and the head's variables."""
    with tf.Graph().as_default(), quick_session() as session:
        tf.set_random_seed(5)
        found = build(tf.constant(POOLED))
        step = tf.assign_add(tf.train.get_or_create_global_step(), 1)
        session.run(tf.global_variables_initializer())
        runs = []
        for _ in range(count):
            runs.append(session.run(found))
            session.run(step)
        return runs, session.run({v.op.name: v for v in tf.trainable_variables()})


def outputs_of(num_labels, labels, threshold=None):
    def build(pooled):
        found = classify(pooled, tf.constant(labels), 0.0, num_labels, threshold)
        return {"loss": found.loss, **found._asdict()}

    (values,), head = runs_of(build)
    return values, head


def test_classification_equals_numpy():
    values, head = outputs_of(3, CLASSES)
    assert {name: value.shape for name, value in head.items()} == {
        "output_weights": (3, 16),
        "output_bias": (3,),
    }
    assert not head["output_bias"].any()
    assert 0.005 < head["output_weights"].std() < 0.03
    logits = POOLED.astype(np.float64) @ head["output_weights"].T
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    losses = -np.log(probabilities[np.arange(6), CLASSES])
    np.testing.assert_allclose(values["logits"], logits, atol=1e-6)
    np.testing.assert_allclose(values["probabilities"], probabilities, atol=1e-6)
    np.testing.assert_allclose(values["losses"], losses, atol=1e-6)
    assert values["loss"] == pytest.approx(losses.mean(), abs=1e-6)
    assert values["predictions"].tolist() == logits.argmax(axis=1).tolist()


def test_several_labels_equal_numpy():
    """The loss is the mean over labels and examples, as in `transformers`."""
    labels = np.array([[0, 0, 1], [1, 1, 1], [0, 0, 0], [1, 0, 1], [0, 1, 0], [1, 0, 0]], np.int32)
    values, head = outputs_of(3, labels, threshold=0.49)
    logits = POOLED.astype(np.float64) @ head["output_weights"].T
    probabilities = 1 / (1 + np.exp(-logits))
    losses = -np.where(labels, np.log(probabilities), np.log(1 - probabilities)).mean(axis=1)
    np.testing.assert_allclose(values["logits"], logits, atol=1e-6)
    np.testing.assert_allclose(values["probabilities"], probabilities, atol=1e-6)
    np.testing.assert_allclose(values["losses"], losses, atol=1e-6)
    assert values["loss"] == pytest.approx(losses.mean(), abs=1e-6)
    expected = probabilities >= 0.49
    assert 0 < expected.sum() < expected.size and (expected != (probabilities >= 0.5)).any()
    np.testing.assert_array_equal(values["predictions"], expected)


def test_regression_equals_numpy():
    labels = np.array([0, 1.5, 2, 5, 4, 3], np.float32)
    values, head = outputs_of(1, labels)
    numbers = (POOLED.astype(np.float64) @ head["output_weights"].T)[:, 0]
    np.testing.assert_allclose(values["logits"], numbers, atol=1e-6)
    np.testing.assert_allclose(values["predictions"], numbers, atol=1e-6)
    np.testing.assert_allclose(values["probabilities"][:, 0], numbers, atol=1e-6)
    np.testing.assert_allclose(values["losses"], np.square(numbers - labels), atol=1e-5)
    assert values["loss"] == pytest.approx(np.square(numbers - labels).mean(), abs=1e-5)


@pytest.mark.parametrize(
    ("is_training", "dropout", "drops"),
    [(True, 0.1, True), (True, 0.0, False), (False, 0.1, False)],
)
def test_dropout_is_only_in_training(is_training, dropout, drops):
    """The dropped units are a function of the step, and differ between steps."""

    def build(pooled):
        # Instead of an encoder.
        encoder = types.SimpleNamespace(get_pooled_output=lambda: pooled)
        features = {"label_ids": tf.constant(CLASSES)}
        return make_head(3, dropout)(lambda *_: encoder, features, is_training).predictions[
            "logits"
        ]

    (first, second), _ = runs_of(build, 2)
    assert np.array_equal(first, second) != drops
    np.testing.assert_array_equal(runs_of(build, 2)[0], [first, second])
