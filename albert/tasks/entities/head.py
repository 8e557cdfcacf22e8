"""The head that tags words."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow.compat.v1 as tf

from albert import modeling
from albert.prediction.model import Encode, Head, HeadOutput
from albert.tasks.classification.head import classified, pooled_scores
from albert.tasks.entities.features import TAG_IDS


def make_head(num_tags: int, dropout: float) -> Head:
    """Returns the head, whose loss is the mean cross-entropy at the first pieces of words.

    Its predictions are the most probable tags and their probabilities, [B, S] each. An exported
    model outputs the logits and probabilities of all tags, [B, S, tags] each.
    """

    def head(encode: Encode, features: Mapping[str, tf.Tensor], is_training: bool) -> HeadOutput:
        states = encode(features).get_sequence_output()
        with tf.variable_scope("cls/ner"):
            rows = modeling.reshape_to_matrix(states)
            logits = pooled_scores(rows, num_tags, dropout if is_training else 0.0)
        if is_training:
            tag_ids = tf.reshape(features[TAG_IDS], [-1])
            weights = tf.cast(tag_ids > 0, tf.float32)
            losses = classified(logits, tf.maximum(tag_ids - 1, 0)).losses
            loss = tf.reduce_sum(losses * weights) / tf.maximum(tf.reduce_sum(weights), 1.0)
            return HeadOutput(loss, {})
        logits = tf.reshape(logits, [*modeling.get_shape_list(states)[:2], num_tags])
        shares, best = tf.nn.softmax(logits), tf.argmax(logits, axis=-1, output_type=tf.int32)
        outputs = {"predictions": best, "probabilities": tf.reduce_max(shares, axis=-1)}
        return HeadOutput(None, outputs, {**outputs, "probabilities": shares, "logits": logits})

    return head
