"""The SQuAD 1.1 head: a start and an end score for every token."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow.compat.v1 as tf

from albert import modeling
from albert.training.encoder_task import Encode, Head, HeadOutput

# Added to the scores of padding where the loss is not to see it; finite in bfloat16 too.
_PADDING_SCORE = -1e30


def answer_scores(states: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns start and end scores, float32 [B, S] each, of the encoder's states [B, S, H]."""
    batch_size, seq_length, hidden_size = modeling.get_shape_list(states, expected_rank=3)
    weights = tf.get_variable(
        "cls/squad/output_weights",
        [2, hidden_size],
        initializer=modeling.create_initializer(0.02),
    )
    bias = tf.get_variable("cls/squad/output_bias", [2], initializer=tf.zeros_initializer())
    scores = tf.matmul(tf.reshape(states, [-1, hidden_size]), weights, transpose_b=True)
    scores = tf.reshape(tf.nn.bias_add(scores, bias), [batch_size, seq_length, 2])
    return scores[:, :, 0], scores[:, :, 1]


def make_v1_head(mask_padding_in_loss: bool, num_best: int | None = None) -> Head:
    """Returns the head of SQuAD 1.1.

    The loss is the mean cross-entropy of start and end. As in the reference the softmax runs over
    all positions, so that the loss depends on how far a batch is padded, unless
    `mask_padding_in_loss` takes padding out of it. With `num_best`, K or the length if that is
    less, predictions are the best starts and ends alone, with their positions, [B, K] each; of
    equals the first. An exported model gives all.
    """

    def head(encode: Encode, features: Mapping[str, tf.Tensor], is_training: bool) -> HeadOutput:
        start_logits, end_logits = answer_scores(encode(features).get_sequence_output())
        if mask_padding_in_loss:
            padding = 1.0 - tf.cast(features["input_mask"], tf.float32)
            start_logits += padding * _PADDING_SCORE
            end_logits += padding * _PADDING_SCORE
        start_logits = tf.identity(start_logits, name="start_logits")
        end_logits = tf.identity(end_logits, name="end_logits")
        given = {key: features[key] for key in ("unique_ids",) if key in features}
        predictions = {"start_log_prob": start_logits, "end_log_prob": end_logits, **given}
        if not is_training:
            best = {**_best(predictions, num_best), **given} if num_best else predictions
            return HeadOutput(None, best, predictions)
        loss = 0.5 * (
            _cross_entropy(start_logits, features["start_positions"])
            + _cross_entropy(end_logits, features["end_positions"])
        )
        return HeadOutput(loss, predictions)

    return head


def _best(scores: Mapping[str, tf.Tensor], count: int) -> dict[str, tf.Tensor]:
    """Returns the best positions of scores [B, S], as SQuAD 2.0's head names them."""
    outputs = {}
    for name in ("start", "end"):
        of_all = scores[f"{name}_log_prob"]
        values, positions = tf.nn.top_k(of_all, tf.minimum(count, tf.shape(of_all)[1]))
        outputs |= {f"{name}_top_log_probs": values, f"{name}_top_index": positions}
    return outputs


def _cross_entropy(logits: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
    """Returns the mean cross-entropy of scores [B, S] and true positions [B]."""
    return tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=positions, logits=logits)
    )
