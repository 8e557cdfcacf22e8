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
        outputs = build(tf.constant(POOLED))
        step = tf.assign_add(tf.train.get_or_create_global_step(), 1)
        session.run(tf.global_variables_initializer())
        runs = [session.run([outputs, step])[0] for _ in range(count)]
        return runs, session.run({v.op.name: v for v in tf.trainable_variables()})


def assert_outputs(num_labels, labels, threshold=None):
    """Compares a head's outputs with NumPy's; the loss is the mean over labels and examples, as in
    `transformers`. Returns the probabilities."""

    def build(pooled):
        output = classify(pooled, tf.constant(labels), 0.0, num_labels, threshold)
        return {"loss": output.loss, **output._asdict()}

    (values,), head = runs_of(build)
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
