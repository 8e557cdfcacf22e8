"""Heads of classifications, regressions and choices: scores from the pooled output, and losses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from albert import modeling
from albert.prediction.model import Encode, Head, HeadOutput
from albert.records.sequences import SEQUENCE_KEYS


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


def classify(
    pooled: tf.Tensor,
    labels: tf.Tensor | None,
    dropout: float,
    num_labels: int,
    label_threshold: float | None = None,
    class_weights: Sequence[float] | None = None,
) -> ClassifierOutput:
    """Builds the layers on the pooled output, float32 [B, H].

    Args:
      labels: int32 [B]; for regression, float32 [B]; for several labels, int32 [B, C]; None to
        compute no losses.
      dropout: dropout rate of the pooled output; 0 outside training.
      num_labels: number of labels C; 1 for regression, whose loss is the squared difference.
      label_threshold: for several labels, the probability from which one is predicted; an example's
        loss is then the mean over its labels. None if an example has one label.
      class_weights: see `classified`; for one label per example.
    """
    scores = pooled_scores(pooled, num_labels, dropout)
    losses = None
    if label_threshold is not None:
        shares = tf.sigmoid(scores)
        if labels is not None:
            bits = tf.cast(labels, scores.dtype)
            each = tf.nn.sigmoid_cross_entropy_with_logits(labels=bits, logits=scores)
            losses = tf.reduce_mean(each, axis=-1)
        predictions = tf.cast(shares >= label_threshold, tf.int32)
        return ClassifierOutput(losses, shares, scores, predictions)
    if num_labels > 1:
        return classified(scores, labels, class_weights)
    numbers = tf.squeeze(scores, [-1])
    if labels is not None:
        losses = tf.square(numbers - labels)
    return ClassifierOutput(losses, scores, numbers, numbers)


def make_head(
    num_labels: int,
    dropout: float,
    threshold: float | None = None,
    layers: Callable[..., ClassifierOutput] = classify,
    **options: Any,
) -> Head:
    """Returns the head of a classification or, if `num_labels` is 1, of a regression.

    Its predictions are `probabilities`, `predictions` and `logits` (see `ClassifierOutput`), and
    `label_ids` and `is_real_example` if the features have them. `dropout` is the rate in training.
    An exported model outputs `threshold` unless it is None. `layers` builds the layers from the
    arguments of `classify`, of which `options` are the last ones.
    """

    def head(encode: Encode, features: Mapping[str, tf.Tensor], is_training: bool) -> HeadOutput:
        first = tf.zeros([1, 1], tf.int32)
        pooled = encode(features, first).get_pooled_output()
        labels = features["label_ids"] if is_training else None
        output = layers(pooled, labels, dropout if is_training else 0.0, num_labels, **options)
        values = {k: getattr(output, k) for k in ("probabilities", "predictions", "logits")}
        exported = dict(values)
        if threshold is not None:
            exported["threshold"] = tf.constant(threshold, tf.float32)
        copied = {k: features[k] for k in ("label_ids", "is_real_example") if k in features}
        return HeadOutput(output.loss, {**values, **copied}, exported)

    return head


def choose(
    pooled: tf.Tensor, labels: tf.Tensor | None, dropout: float, num_options: int
) -> ClassifierOutput:
    """Builds the layer that scores N options per example from pooled outputs [B * N, H]."""
    return classified(tf.reshape(pooled_scores(pooled, 1, dropout), [-1, num_options]), labels)


def one_a_row(sequences: Mapping[str, tf.Tensor], num_options: int) -> dict[str, tf.Tensor]:
    """Reshapes ids, mask and segments, int32 [B, N, S] or [B, N * S], to [B * N, S]."""
    *more, length = modeling.get_shape_list(sequences["input_ids"])[1:]
    length = length if more else length // num_options
    return {key: tf.reshape(sequences[key], [-1, length]) for key in SEQUENCE_KEYS}


def make_choice_head(dropout: float, num_options: int) -> Head:
    """Returns the head of a choice between options; `dropout` is the dropout rate in training."""
    choosing = make_head(num_options, dropout, layers=choose)

    def head(encode: Encode, features: Mapping[str, tf.Tensor], is_training: bool) -> HeadOutput:
        return choosing(
            lambda f, positions: encode(one_a_row(f, num_options), positions), features, is_training
        )

    return head
