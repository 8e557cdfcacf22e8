"""The pretraining heads: masked language model, and relation between the two segments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from albert import modeling
from albert.prediction.model import Encode, Head, HeadOutput

# The features that rows of several examples have, in addition to those of rows of one example.
SEQUENCE_IDS, POSITION_IDS = "sequence_ids", "position_ids"
# Their places for examples, and which of these have one.
FIRST_POSITIONS, EXAMPLE_WEIGHTS = "next_sentence_positions", "next_sentence_weights"


class Prediction(NamedTuple):
    """The losses and hits of a head, float32 of the same shape.

    Losses are cross-entropies; `correct` is 1 if the most probable class is the label, otherwise 0.
    """

    losses: tf.Tensor
    correct: tf.Tensor


def predict_masked_tokens(
    albert_config: modeling.EncoderConfig, masked: tf.Tensor, table: tf.Tensor, labels: tf.Tensor
) -> Prediction:
    """Builds the masked language model at the masked positions; returns losses and hits [B, P].

    Args:
      masked: float32 [B, P, H], the encoder's last states at the masked positions.
      table: float32 [V, E], the word embeddings, which are also the output weights.
      labels: int32 [B, P], the original tokens.
    """
    batch_size, max_predictions = modeling.get_shape_list(labels, expected_rank=2)
    masked = tf.reshape(masked, [-1, albert_config.hidden_size])
    with tf.variable_scope("cls/predictions"):
        with tf.variable_scope("transform"):
            hidden = modeling.dense(
                masked,
                albert_config.embedding_size,
                albert_config.initializer_range,
                activation=albert_config.hidden_act,
            )
            hidden = modeling.layer_norm(hidden)
        bias = tf.get_variable(
            "output_bias", [albert_config.vocab_size], initializer=tf.zeros_initializer()
        )
        logits = tf.nn.bias_add(tf.matmul(hidden, table, transpose_b=True), bias)
    prediction = _prediction(logits, tf.reshape(labels, [-1]))
    return Prediction(*(tf.reshape(value, [batch_size, max_predictions]) for value in prediction))


def predict_relation(
    albert_config: modeling.EncoderConfig, pooled: tf.Tensor, labels: tf.Tensor
) -> Prediction:
    """Predicts whether the second segment follows the first (0) or not (1).

    In data for ALBERT, 1 means that the two have been swapped; in data for BERT, that the second
    comes from another place. Losses, hits and labels are [N]. `pooled`, float32 [N, H], is the
    encoder's pooled output for each example.
    """
    with tf.variable_scope("cls/seq_relationship"):
        weights = tf.get_variable(
            "output_weights",
            [2, albert_config.hidden_size],
            initializer=modeling.create_initializer(albert_config.initializer_range),
        )
        bias = tf.get_variable("output_bias", [2], initializer=tf.zeros_initializer())
        logits = tf.nn.bias_add(tf.matmul(pooled, weights, transpose_b=True), bias)
    return _prediction(logits, labels)


def _prediction(logits: tf.Tensor, labels: tf.Tensor) -> Prediction:
    """Returns losses and hits [M] for scores [M, C] and true classes [M]."""
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    hits = tf.equal(tf.argmax(logits, axis=-1, output_type=tf.int32), labels)
    return Prediction(losses, tf.cast(hits, tf.float32))


def make_head(albert_config: modeling.EncoderConfig) -> Head:
    """Returns the heads of pretraining; predictions are sums for each example, see `scores_of`.

    The loss is the mean cross-entropy of the masked tokens plus that of the segments' relation.
    """
    is_bert = isinstance(albert_config, modeling.BertConfig)
    relation_name = NEXT_SENTENCE if is_bert else SENTENCE_ORDER

    def head(encode: Encode, features: Mapping[str, tf.Tensor], is_training: bool) -> HeadOutput:
        masked = features["masked_lm_positions"]
        if FIRST_POSITIONS in features:
            first = features[FIRST_POSITIONS]
            row = features[SEQUENCE_IDS], features[POSITION_IDS]
            packing = modeling.Packing(*row, num_sequences=first.shape[1])
        else:
            first, packing = tf.zeros_like(masked[:, :1]), None
        model = encode(features, tf.concat([first, masked], axis=1), packing)
        tokens = predict_masked_tokens(
            albert_config,
            model.get_sequence_output()[:, first.shape[1] :],
            model.get_embedding_table(),
            features["masked_lm_ids"],
        )
        weights = features["masked_lm_weights"]
        relation = predict_relation(
            albert_config,
            model.get_pooled_output(),
            tf.reshape(features["next_sentence_labels"], [-1]),
        )
        if not is_training:
            # The values of each example, float32 [B], that `scores_of` sums up.
            sums = {
                "masked_lm_weight": tf.reduce_sum(weights, axis=1),
                "masked_lm_loss": tf.reduce_sum(weights * tokens.losses, axis=1),
                "masked_lm_correct": tf.reduce_sum(weights * tokens.correct, axis=1),
                f"{relation_name}_loss": relation.losses,
                f"{relation_name}_correct": relation.correct,
            }
            return HeadOutput(None, sums)
        if packing:
            is_example = tf.reshape(features[EXAMPLE_WEIGHTS], [-1])
            loss = tf.reduce_sum(is_example * relation.losses) / tf.reduce_sum(is_example)
        else:
            loss = tf.reduce_mean(relation.losses)
        # As in the reference.
        masked_loss = tf.reduce_sum(weights * tokens.losses) / (tf.reduce_sum(weights) + 1e-5)
        return HeadOutput(masked_loss + loss, {})

    return head


KEY_SCORE = "masked_lm_accuracy"
# Above, the perplexity would not be finite in the curves, whose values are float32.
_LARGEST_EXPONENT = 88.0
# Names of the relation between the segments, for ALBERT and for BERT.
SENTENCE_ORDER, NEXT_SENTENCE = "sentence_order", "next_sentence"


def scores_of(outputs: Sequence[dict[str, np.ndarray]]) -> dict[str, float]:
    """Returns mean losses and accuracies under the reference's names.

    They are means over all masked tokens or, for sentence order and next sentence, all examples.
    `loss` is the sum of both losses. `masked_lm_perplexity`, which the reference lacks, is e to the
    power of `masked_lm_loss`.
    """
    columns = {key: np.array([output[key] for output in outputs], float) for key in outputs[0]}
    masked = max(columns["masked_lm_weight"].sum(), 1.0)
    relation = NEXT_SENTENCE if f"{NEXT_SENTENCE}_loss" in columns else SENTENCE_ORDER
    scores = {
        "masked_lm_accuracy": columns["masked_lm_correct"].sum() / masked,
        "masked_lm_loss": columns["masked_lm_loss"].sum() / masked,
        f"{relation}_accuracy": columns[f"{relation}_correct"].mean(),
        f"{relation}_loss": columns[f"{relation}_loss"].mean(),
    }
    scores["masked_lm_perplexity"] = np.exp(min(scores["masked_lm_loss"], _LARGEST_EXPONENT))
    scores["loss"] = scores["masked_lm_loss"] + scores[f"{relation}_loss"]
    return {name: float(value) for name, value in scores.items()}
