"""Records of labeled examples."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow.compat.v1 as tf

from albert.records import tf_example
from albert.records.sequences import LABELS, SEQUENCE_KEYS, TokenSequence, sequence_entries


def feature_spec(
    shape: Sequence[int], is_regression: bool = False, label_shape: Sequence[int] = ()
) -> dict:
    """Returns the specification with which `tf.io.parse_example` reads a record.

    Args:
      shape: shape of an example's sequences: their length, preceded by their number if there are
        several.
      label_shape: empty for a single label; otherwise the number of labels, each 0 or 1.
    """
    label_type = tf.float32 if is_regression else tf.int64
    return {
        **{key: tf.io.FixedLenFeature(shape, tf.int64) for key in SEQUENCE_KEYS},
        LABELS: tf.io.FixedLenFeature(label_shape, label_type),
        "is_real_example": tf.io.FixedLenFeature([], tf.int64),
    }


def serialize(
    sequences: Sequence[TokenSequence],
    label_id: float | Sequence[int],
    length: int,
    is_real_example: int = True,
) -> bytes:
    """Returns a `tf.train.Example`, whose `label_ids` are a float for regression, else integers.

    Args:
      sequences: sequences of the example; their values are concatenated.
      label_id: number of the label; for regression, the label itself, a float; for several labels,
        0 or 1 for each label of the task.
      length: length to which each sequence is padded.
      is_real_example: 0 for an example that only fills a batch; see `albert.tasks.glue.windows`.
    """
    is_real = tf_example.entry("is_real_example", tf_example.varint(int(is_real_example)))
    entries = sequence_entries(sequences, length) + is_real
    if not isinstance(label_id, float):
        numbers = [label_id] if isinstance(label_id, int) else label_id
        content = b"".join(map(tf_example.varint, numbers))
        return tf_example.example(entries + tf_example.entry(LABELS, content))
    label = tf.train.Feature(float_list=tf.train.FloatList(value=[label_id]))
    joined = tf.train.Example(features=tf.train.Features(feature={LABELS: label}))
    # Concatenated serialized messages are read as one message with the fields of both.
    return tf_example.example(entries) + joined.SerializeToString()
