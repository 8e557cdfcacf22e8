"""The head of RACE: a score for every option."""

from __future__ import annotations

import functools
from collections.abc import Mapping

import tensorflow.compat.v1 as tf

from albert import modeling
from albert.data.sequences import SEQUENCE_KEYS
from albert.tasks.classification.head import Classified, classified, make_head, pooled_scores
from albert.training.encoder_task import Encode, Head, HeadOutput


def choose(
    pooled: tf.Tensor, labels: tf.Tensor | None, dropout: float, num_options: int
) -> Classified:
    """Builds the layer above the pooled output, float32 [B * N, H], of N options each."""
    return classified(tf.reshape(pooled_scores(pooled, 1, dropout), [-1, num_options]), labels)


def one_a_row(sequences: Mapping[str, tf.Tensor], num_options: int) -> dict[str, tf.Tensor]:
    """Returns ids, mask and segments, int32 [B, N, S] or [B, N * S], as [B * N, S]."""
    *more, length = modeling.get_shape_list(sequences["input_ids"])[1:]
    length = length if more else length // num_options
    return {key: tf.reshape(sequences[key], [-1, length]) for key in SEQUENCE_KEYS}


def make_race_head(dropout: float, num_options: int) -> Head:
    """Returns the head; `dropout` is the rate in training."""
    choosing = make_head(functools.partial(choose, num_options=num_options), dropout)

    def head(encode: Encode, features: Mapping[str, tf.Tensor], is_training: bool) -> HeadOutput:
        return choosing(
            lambda f, positions: encode(one_a_row(f, num_options), positions), features, is_training
        )

    return head
