"""The head that chooses one of several options."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow.compat.v1 as tf

from albert import modeling
from albert.prediction.model import Encode, Head, HeadOutput
from albert.records.sequences import SEQUENCE_KEYS
from albert.tasks.classification.head import ClassifierOutput, classified, make_head, pooled_scores


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


def make_race_head(dropout: float, num_options: int) -> Head:
    """Returns the head; `dropout` is the dropout rate in training."""
    choosing = make_head(num_options, dropout, layers=choose)

    def head(encode: Encode, features: Mapping[str, tf.Tensor], is_training: bool) -> HeadOutput:
        return choosing(
            lambda f, positions: encode(one_a_row(f, num_options), positions), features, is_training
        )

    return head
