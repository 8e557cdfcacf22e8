"""The classification head: a score for every label, or one number in regression."""

from __future__ import annotations

import functools

import tensorflow.compat.v1 as tf

from albert.tasks.classification import head
from albert.tasks.classification.head import Classified, classified, pooled_scores
from albert.training.encoder_task import Head


def classify(
    pooled: tf.Tensor,
    labels: tf.Tensor | None,
    dropout: float,
    num_labels: int,
) -> Classified:
    """Builds the head.

    Args:
      pooled: float32 [B, H], the encoder's pooled output.
      labels: int32 [B], or float32 [B] in regression; None for no losses.
      dropout: the probability that the head does not see a unit; 0 outside training.
      num_labels: C; 1 for regression, in which the loss is the squared difference.
    """
    scores = pooled_scores(pooled, num_labels, dropout)
    if num_labels > 1:
        return classified(scores, labels)
    numbers = tf.squeeze(scores, [-1])
    losses = None if labels is None else tf.square(numbers - labels)
    return Classified(losses, scores, numbers, numbers)


def make_head(num_labels: int, dropout: float, threshold: float | None = None) -> Head:
    """Returns the head of a classification or, with one label, regression.

    Args:
      num_labels: see `classify`.
      dropout, threshold: see `albert.tasks.classification.head.make_head`.
    """
    return head.make_head(functools.partial(classify, num_labels=num_labels), dropout, threshold)
