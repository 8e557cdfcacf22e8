"""The head of a classification or regression of texts."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow.compat.v1 as tf

from albert.prediction.model import Head
from albert.tasks.classification import head
from albert.tasks.classification.head import (
    ClassifierOutput,
    classified,
    multi_labelled,
    pooled_scores,
)


def classify(
    pooled: tf.Tensor,
    labels: tf.Tensor | None,
    dropout: float,
    num_labels: int,
    label_threshold: float | None = None,
    class_weights: Sequence[float] | None = None,
) -> ClassifierOutput:
    """Builds the head.

    Args:
      pooled: float32 [B, H], the encoder's pooled output.
      labels: int32 [B]; for regression, float32 [B]; for several labels, int32 [B, C]; None to
        compute no losses.
      dropout: dropout rate of the pooled output; 0 outside training.
      num_labels: number of labels C; 1 for regression, whose loss is the squared difference.
      label_threshold: see `multi_labelled`; None if an example has one label.
      class_weights: see `classified`; for one label per example.
    """
    scores = pooled_scores(pooled, num_labels, dropout)
    if label_threshold is not None:
        return multi_labelled(scores, labels, label_threshold)
    if num_labels > 1:
        return classified(scores, labels, class_weights)
    numbers = tf.squeeze(scores, [-1])
    losses = None if labels is None else tf.square(numbers - labels)
    return ClassifierOutput(losses, scores, numbers, numbers)


def make_head(
    num_labels: int,
    dropout: float,
    threshold: float | None = None,
    label_threshold: float | None = None,
    class_weights: Sequence[float] | None = None,
) -> Head:
    """Returns the head of a classification or, if `num_labels` is 1, of a regression.

    For `label_threshold` and `class_weights`, see `classify`; for the others,
    `classification.head.make_head`.

        >>> from albert import modeling
        >>> head = make_head(num_labels=3, dropout=0.1)
        >>> config = modeling.AlbertConfig(vocab_size=100, hidden_size=32, num_attention_heads=4)
        >>> with tf.Graph().as_default():
        ...     encode = lambda f, at: modeling.Encoder(config, False, **f, positions=at)
        ...     output = head(encode, {"input_ids": tf.ones([2, 8], tf.int32)}, False)
        ...     print(output.predictions["probabilities"].shape)
        (2, 3)
    """
    options = {"label_threshold": label_threshold, "class_weights": class_weights}
    return head.make_head(classify, dropout, threshold, num_labels=num_labels, **options)
