"""The pretraining heads: golden losses, variables, size of the graph, gradients of the input."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import modeling
from encoder_task import ModelOptions, make_model_fn
from optimization import OptimizerOptions
from pretraining.head import make_head
from pretraining.scoring import scores_of
from runtime import estimators
from runtime.data.records import reading_records
from runtime.errors import UserError
from tests.test_modeling_bert import transformers_bert

BERT = modeling.BertConfig(
    vocab_size=211,
    hidden_size=12,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=16,
    max_position_embeddings=16,
    type_vocab_size=2,
)
TINY = modeling.AlbertConfig(
    vocab_size=211,
    embedding_size=8,
    hidden_size=12,
    num_hidden_layers=2,
    num_hidden_groups=2,
    num_attention_heads=2,
    intermediate_size=16,
    max_position_embeddings=16,
)


def build(config, features, mode, init_checkpoint=None, num_groups=0):
    """The specification of the model in the default graph."""
    tf.train.get_or_create_global_step()
    optimizer = OptimizerOptions(1e-3, 10, optimizer="lamb")
    options = ModelOptions(optimizer, init_checkpoint, num_groups)
    model_fn = make_model_fn(config, make_head(config), options)
    tensors = {key: tf.convert_to_tensor(value) for key, value in features.items()}
    return model_fn(tensors, None, mode, {})


def tiny_features(rows=3, places=4):
    rng = np.random.default_rng(1)
    return {
        "input_ids": rng.integers(0, 211, (rows, 16), np.int32),
        "input_mask": np.ones((rows, 16), np.int32),
        "segment_ids": np.repeat([[0] * 8 + [1] * 8], rows, axis=0).astype(np.int32),
        "masked_lm_positions": rng.integers(1, 16, (rows, places), np.int32),
        "masked_lm_ids": rng.integers(0, 211, (rows, places), np.int32),
        "masked_lm_weights": np.array([[1, 1, 1, 0]] * rows, np.float32)[:, :places],
        "next_sentence_labels": np.array([[0], [1], [1]], np.int32)[:rows],
    }


@pytest.fixture(scope="module")
def golden(shared):
    """The golden folder, its configuration, its features and its figures."""
    folder = shared / "golden" / "albert_tiny"
    figures = np.load(folder / "encoder.npz")
    config = modeling.AlbertConfig.from_json_file(str(folder / "albert_config.json"))
    features = {
        key: figures[key].astype(np.float32 if key.endswith("weights") else np.int32)
        for key in tiny_features()
    }
    return folder, config, features, figures


def test_golden_loss_of_training(golden):
    """The sum of both losses, which the first step reports."""
    folder, config, features, figures = golden
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0
    with tf.Graph().as_default(), tf.Session() as session:
        spec = build(config, features, estimators.ModeKeys.TRAIN, str(folder))
        session.run(tf.global_variables_initializer())
        loss = session.run(spec.loss)
    expected = float(figures["masked_lm_loss"]) + float(figures["sentence_order_loss"])
    assert abs(loss - expected) < 1e-5


@pytest.mark.parametrize(
    "key", ["input_ids", "masked_lm_positions", "masked_lm_ids", "next_sentence_labels"]
)
def test_values_out_of_range_are_an_error_of_the_files(key):
    """In TensorFlow's words, which differ from operation to operation."""
    features = tiny_features()
    features[key][1] = 999
    with tf.Graph().as_default(), tf.Session() as session:
        features = {k: tf.placeholder_with_default(v, v.shape) for k, v in features.items()}
        spec = build(TINY, features, estimators.ModeKeys.PREDICT)
        session.run(tf.global_variables_initializer())
        with (
            pytest.raises(UserError, match="record of some file is damaged"),
            reading_records(["some file"]),
        ):
            session.run(spec.predictions)


def test_golden_losses_of_prediction(golden):
    folder, config, features, figures = golden
    with tf.Graph().as_default(), tf.Session() as session:
        spec = build(config, features, estimators.ModeKeys.PREDICT)
        modeling.initialize_from_checkpoint(tf.trainable_variables(), str(folder))
        session.run(tf.global_variables_initializer())
        sums = session.run(spec.predictions)
    rows = [dict(zip(sums, row, strict=True)) for row in zip(*sums.values(), strict=True)]
    scores = scores_of(rows)
    # The reference divides by the number of masked tokens plus 1e-5.
    masked = figures["masked_lm_weights"].sum()
    loss = scores["masked_lm_loss"] * masked / (masked + 1e-5)
    assert abs(loss - figures["masked_lm_loss"]) < 1e-5
    assert abs(scores["sentence_order_loss"] - figures["sentence_order_loss"]) < 1e-5


def test_variables_are_those_of_the_golden_checkpoint(golden):
    folder, config, features, _ = golden
    stored = tf.train.load_checkpoint(str(folder / "model.ckpt-best")).get_variable_to_shape_map()
    with tf.Graph().as_default():
        build(config, features, estimators.ModeKeys.PREDICT)
        ours = {v.op.name: v.shape.as_list() for v in tf.trainable_variables()}
    assert ours == {k: v for k, v in stored.items() if k != "global_step"}


def test_variables_of_bert_are_those_of_the_golden_checkpoint(shared):
    folder = shared / "golden" / "bert_tiny"
    stored = tf.train.load_checkpoint(str(folder / "bert_model.ckpt")).get_variable_to_shape_map()
    config = modeling.BertConfig.from_json_file(str(folder / "bert_config.json"))
    with tf.Graph().as_default():
        build(config, tiny_features(), estimators.ModeKeys.PREDICT)
        ours = {v.op.name: v.shape.as_list() for v in tf.trainable_variables()}
    assert ours == {k: v for k, v in stored.items() if k != "global_step"}


def test_losses_of_bert_are_those_of_transformers(tmp_path):
    features = tiny_features()
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(2)
        spec = build(BERT, features, estimators.ModeKeys.PREDICT)
        session.run(tf.global_variables_initializer())
        for number, variable in enumerate(tf.trainable_variables()):
            values = np.random.default_rng(number).normal(0, 0.3, variable.shape.as_list())
            variable.load(values + variable.op.name.endswith("gamma"), session)
        sums = session.run(spec.predictions)
        path = tf.train.Saver(tf.trainable_variables()).save(session, str(tmp_path / "model.ckpt"))
    theirs = transformers_bert(BERT, path)
    torch = pytest.importorskip("torch")
    inputs = [torch.from_numpy(features[key]).long() for key in list(features)[:3]]
    with torch.no_grad():
        tokens, relation = theirs(*inputs, return_dict=False)
    tokens, relation = (torch.log_softmax(scores, -1).numpy() for scores in (tokens, relation))
    rows, places = np.arange(3)[:, None], features["masked_lm_positions"]
    losses = -tokens[rows, places, features["masked_lm_ids"]]
    expected = {
        "masked_lm_loss": (losses * features["masked_lm_weights"]).sum(axis=1),
        "next_sentence_loss": -relation[rows[:, 0], features["next_sentence_labels"][:, 0]],
    }
    assert sums.keys() >= {"next_sentence_correct", *expected}
    for name, value in expected.items():
        np.testing.assert_allclose(sums[name], value, rtol=0, atol=1e-4)
    outputs = [dict(zip(sums, row, strict=True)) for row in zip(*sums.values(), strict=True)]
    scores = scores_of(outputs)
    assert scores["next_sentence_loss"] == pytest.approx(
        expected["next_sentence_loss"].mean(), 1e-4
    )
    right = (relation.argmax(-1) == features["next_sentence_labels"][:, 0]).mean()
    assert scores["next_sentence_accuracy"] == pytest.approx(right)
    assert "sentence_order_loss" not in scores


@pytest.mark.parametrize("mode", [estimators.ModeKeys.TRAIN, estimators.ModeKeys.PREDICT])
def test_scores_over_the_vocabulary_are_of_masked_places_only(mode):
    """No tensor, of gradients neither, has the vocabulary times more rows than there are places."""
    with tf.Graph().as_default() as graph:
        build(TINY, tiny_features(), mode)
        operations = graph.get_operations()
    assert "OneHot" not in {operation.type for operation in operations}
    over_vocabulary = {
        tuple(tensor.shape.as_list())
        for operation in operations
        for tensor in operation.outputs
        if tensor.shape.rank and tensor.shape[-1] == 211
    }
    # Scores, the bias, and weights transposed.
    assert over_vocabulary <= {(12, 211), (211,), (1, 211), (8, 211)}
    assert (12, 211) in over_vocabulary


def test_places_without_weight_do_not_count():
    features = tiny_features()
    losses = []
    for label in (3, 170):
        features["masked_lm_ids"][:, 3] = label
        with tf.Graph().as_default(), tf.Session() as session:
            tf.set_random_seed(1)
            spec = build(TINY, features, estimators.ModeKeys.PREDICT)
            session.run(tf.global_variables_initializer())
            losses.append(session.run(spec.predictions["masked_lm_loss"]))
    np.testing.assert_array_equal(*losses)


def test_all_groups_start_from_the_first(tmp_path):
    """A checkpoint of one group serves both, with `num_groups`."""
    single = modeling.AlbertConfig.from_dict({**TINY.to_dict(), "num_hidden_groups": 1})
    with tf.Graph().as_default(), tf.Session() as session:
        build(single, tiny_features(), estimators.ModeKeys.PREDICT)
        session.run(tf.global_variables_initializer())
        path = tf.train.Saver().save(session, str(tmp_path / "model.ckpt"))
    reader = tf.train.load_checkpoint(path)
    with tf.Graph().as_default(), tf.Session() as session:
        build(TINY, tiny_features(), estimators.ModeKeys.TRAIN, path, num_groups=2)
        session.run(tf.global_variables_initializer())
        for variable in tf.trainable_variables():
            source = variable.op.name.replace("group_1/inner", "group_0/inner")
            np.testing.assert_array_equal(session.run(variable), reader.get_tensor(source))


def test_scores_are_means_over_masked_tokens_and_examples():
    outputs = [
        {
            "masked_lm_weight": np.float32(weight),
            "masked_lm_loss": np.float32(loss),
            "masked_lm_correct": np.float32(correct),
            "sentence_order_loss": np.float32(order_loss),
            "sentence_order_correct": np.float32(order),
        }
        for weight, loss, correct, order_loss, order in (
            (1, 4.0, 1, 0.5, 1),
            (3, 2.0, 0, 0.25, 0),
            (0, 0.0, 0, 0.0, 1),
        )
    ]
    assert scores_of(outputs) == pytest.approx(
        {
            "masked_lm_accuracy": 1 / 4,
            "masked_lm_loss": 6 / 4,
            "sentence_order_accuracy": 2 / 3,
            "sentence_order_loss": 0.25,
            "loss": 1.75,
        }
    )
