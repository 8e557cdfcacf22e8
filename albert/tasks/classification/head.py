"""Shared parts of classification heads: scores from the pooled output, and weighted losses."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from albert import modeling
from albert.prediction.model import Encode, Head, HeadOutput


class ClassifierOutput(NamedTuple):
    """The outputs of a classification head for a batch.

    Attributes:
      losses: losses [B], or None without labels. Their mean is the loss.
      probabilities: probabilities [B, C]; for regression, the predicted numbers [B, 1].
      logits: logits [B, C]; for regression, the predicted numbers [B].
      predictions: most probable labels, int32 [B]; for regression, the predicted numbers; for
        several labels, 0 or 1 for each label, int32 [B, C].
    """

    losses: tf.Tensor | None
    probabilities: tf.Tensor
    logits: tf.Tensor
    predictions: tf.Tensor

    @property
    def loss(self) -> tf.Tensor | None:
        """Returns the mean loss."""
        return None if self.losses is None else tf.reduce_mean(self.losses)


def pooled_scores(pooled: tf.Tensor, num_scores: int, dropout: float) -> tf.Tensor:
    """Builds the last layer on the pooled output, float32 [B, H]; returns scores, float32 [B, C].

    `dropout` is the rate for the pooled output; 0 outside training.
    """
    weights = tf.get_variable(
        "output_weights",
        [num_scores, pooled.shape[-1]],
        initializer=modeling.create_initializer(0.02),
    )
    bias = tf.get_variable("output_bias", [num_scores], initializer=tf.zeros_initializer())
    with tf.variable_scope("loss"):
        if dropout:
            pooled = modeling.dropout(pooled, dropout, site="classifier")
        return tf.nn.bias_add(tf.matmul(pooled, weights, transpose_b=True), bias)


def classified(
    logits: tf.Tensor, labels: tf.Tensor | None, class_weights: Sequence[float] | None = None
) -> ClassifierOutput:
    """Returns predictions from scores [B, C], and losses if there are labels, int32 [B].

    With a weight for each class, the mean of the losses is the weighted mean: sum(weight * loss) /
    sum(weight) over the batch, as `torch.nn.CrossEntropyLoss(weight=...)` computes it.
    """
    probabilities = tf.nn.softmax(logits)
    predictions = tf.argmax(logits, axis=-1, output_type=tf.int32)
    losses = None
    if labels is not None:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        if class_weights is not None:
            weights = tf.gather(tf.constant(class_weights, losses.dtype), labels)
            losses *= weights / tf.reduce_mean(weights)
    return ClassifierOutput(losses, probabilities, logits, predictions)


def balanced_weights(examples: Iterable[str], labels: Sequence[str]) -> list[float]:
    """Returns n / (classes * count) for the labels of n examples, as scikit-learn's "balanced".

    Only labels with examples count as classes.
    """
    counts = collections.Counter(examples)
    return [counts.total() / (len(counts) * (counts[label] or 1)) for label in labels]


def multi_labelled(
    logits: tf.Tensor, labels: tf.Tensor | None, threshold: float
) -> ClassifierOutput:
    """Returns predictions from scores [B, C], and losses if there are labels, int32 [B, C].

    An example's loss is the mean over its labels, each 0 or 1. `threshold` is the probability from
    which a label is predicted.
    """
    probabilities = tf.sigmoid(logits)
    predictions = tf.cast(probabilities >= threshold, tf.int32)
    losses = None
    if labels is not None:
        label_losses = tf.nn.sigmoid_cross_entropy_with_logits(
            labels=tf.cast(labels, logits.dtype), logits=logits
        )
        losses = tf.reduce_mean(label_losses, axis=-1)
    return ClassifierOutput(losses, probabilities, logits, predictions)


def make_head(
    classify: Callable[..., ClassifierOutput],
    dropout: float,
    threshold: float | None = None,
    **options: Any,
) -> Head:
    """Returns the head of a classification or regression.

    Its predictions are `probabilities`, `predictions` and `logits` (see `ClassifierOutput`), and
    `label_ids` and `is_real_example` if the features have them. `classify` builds the layers on the
    pooled output [B, H]; its other arguments are the labels (see `classified` and `multi_labelled`)
    or None, the rate of dropout, and `options`. `dropout` is the rate in training. An exported
    model outputs `threshold` unless it is None.
    """

    def head(encode: Encode, features: Mapping[str, tf.Tensor], is_training: bool) -> HeadOutput:
        first = tf.zeros([1, 1], tf.int32)
        pooled = encode(features, first).get_pooled_output()
        labels = features["label_ids"] if is_training else None
        output = classify(pooled, labels, dropout if is_training else 0.0, **options)
        values = {k: getattr(output, k) for k in ("probabilities", "predictions", "logits")}
        exported = dict(values)
        if threshold is not None:
            exported["threshold"] = tf.constant(threshold, tf.float32)
        copied = {k: features[k] for k in ("label_ids", "is_real_example") if k in features}
        return HeadOutput(output.loss, {**values, **copied}, exported)

    return head
