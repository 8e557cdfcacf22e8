"""The pretraining heads: golden losses, variables, size of the graph, gradients of the input."""

import math

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from albert import modeling
from albert.core import estimators
from albert.core.errors import UserError
from albert.optimization import OptimizerOptions
from albert.prediction.model import ModelOptions
from albert.records.records import reading_records
from albert.tasks.pretraining.head import make_head, scores_of
from albert.training.model_fn import make_model_fn
from tests.helpers.golden import FOLDER, assert_pretraining_losses

TRAIN, PREDICT = estimators.ModeKeys.TRAIN, estimators.ModeKeys.PREDICT
SIZES = {
    **{"vocab_size": 211, "hidden_size": 12, "intermediate_size": 16, "type_vocab_size": 2},
    **{"num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 16},
}
TINY = modeling.AlbertConfig(**SIZES, embedding_size=8)


def build(config, features, mode, init_checkpoint=None, num_groups=0):
    tf.train.get_or_create_global_step()
    optimizer = OptimizerOptions(1e-3, 10, optimizer="lamb")
    options = ModelOptions(optimizer, init_checkpoint, num_groups)
    model_fn = make_model_fn(config, make_head(config), options)
    tensors = {key: tf.convert_to_tensor(value) for key, value in features.items()}
    return model_fn(tensors, None, mode, {})


def tiny_features():
    rng = np.random.default_rng(1)
    return {
        "input_ids": rng.integers(0, 211, (3, 16), np.int32),
        "input_mask": np.ones((3, 16), np.int32),
        "segment_ids": np.array([[0] * 8 + [1] * 8] * 3, np.int32),
        "masked_lm_positions": rng.integers(1, 16, (3, 4), np.int32),
        "masked_lm_ids": rng.integers(0, 211, (3, 4), np.int32),
        "masked_lm_weights": np.array([[1, 1, 1, 0]] * 3, np.float32),
        "next_sentence_labels": np.array([[0], [1], [1]], np.int32),
    }


@pytest.mark.each_python
@pytest.mark.parametrize("family", ["albert", "bert"])
def test_losses_equal_the_references(family):
    assert_pretraining_losses(FOLDER / f"{family}_tiny")


def test_values_out_of_range_are_errors_and_weight_0_ignored():
    """The error has TensorFlow's words, which differ between operations."""
    features = tiny_features()
    with tf.Graph().as_default(), tf.Session() as session:
        tensors = {k: tf.placeholder_with_default(v, v.shape) for k, v in features.items()}
        spec = build(TINY, tensors, PREDICT)
        session.run(tf.global_variables_initializer())
        losses = []
        for label in (3, 170):
            features["masked_lm_ids"][:, 3] = label
            feed = {tensors["masked_lm_ids"]: features["masked_lm_ids"]}
            losses.append(session.run(spec.predictions["masked_lm_loss"], feed))
        np.testing.assert_array_equal(*losses)
        labels = ["masked_lm_positions", "masked_lm_ids", "next_sentence_labels"]
        for key in ["input_ids", *labels]:
            wrong = features[key].copy()
            wrong[1] = 999
            with (
                pytest.raises(UserError, match="record of some file is damaged"),
                reading_records(["some file"]),
            ):
                session.run(spec.predictions, {tensors[key]: wrong})


@pytest.mark.slow
def test_all_groups_start_from_the_first(tmp_path):
    groups = {"num_hidden_layers": 2, "num_hidden_groups": 2}
    config = modeling.AlbertConfig.from_dict({**TINY.to_dict(), **groups})
    with tf.Graph().as_default(), tf.Session() as session:
        build(TINY, tiny_features(), PREDICT)
        session.run(tf.global_variables_initializer())
        path = tf.train.Saver().save(session, str(tmp_path / "model.ckpt"))
    reader = tf.train.load_checkpoint(path)
    with tf.Graph().as_default(), tf.Session() as session:
        build(config, tiny_features(), TRAIN, path, num_groups=2)
        session.run(tf.global_variables_initializer())
        for name, value in session.run({v.op.name: v for v in tf.trainable_variables()}).items():
            source = name.replace("group_1/inner", "group_0/inner")
            np.testing.assert_array_equal(value, reader.get_tensor(source))


def test_scores_are_means_over_masked_tokens_and_examples():
    names = ["masked_lm_weight", "masked_lm_loss", "masked_lm_correct"]
    names += ["sentence_order_loss", "sentence_order_correct"]
    rows = [(1, 4.0, 1, 0.5, 1), (3, 2.0, 0, 0.25, 0), (0, 0.0, 0, 0.0, 1)]
    outputs = [dict(zip(names, map(np.float32, row), strict=True)) for row in rows]
    expected = {"masked_lm_accuracy": 1 / 4, "masked_lm_loss": 6 / 4, "loss": 1.75}
    expected |= {"sentence_order_accuracy": 2 / 3, "sentence_order_loss": 0.25}
    expected |= {"masked_lm_perplexity": math.exp(1.5)}
    assert scores_of(outputs) == pytest.approx(expected)
