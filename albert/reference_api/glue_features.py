"""Features of pairs of texts in the reference's form: lists, one example at a time."""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow.compat.v1 as tf

from albert.data.sequences import TokenSequence, padded
from albert.tasks.glue.features import Feature, make_feature, serialize


class PaddingInputExample:
    """An example that fills a last batch if batches must be full; scores ignore it."""


@dataclasses.dataclass(eq=False)
class InputFeatures:
    """The model's input for an example.

    Attributes:
      input_ids, input_mask, segment_ids: lists of `max_seq_length` integers.
      label_id: number of the label; for regression, the label itself.
      guid, example_id: not used, as in the reference.
      is_real_example: false for an example that only fills a batch.
    """

    input_ids: list
    input_mask: list
    segment_ids: list
    label_id: Any
    guid: Any = None
    example_id: Any = None
    is_real_example: bool = True


def convert_single_example(
    ex_index, example, label_list, max_seq_length, tokenizer, task_name
) -> InputFeatures:
    """Converts an `InputExample`, and truncates the longer text at its end if necessary.

    Args:
      ex_index, task_name: not used; kept for compatibility.
      example: an `InputExample` or a `PaddingInputExample`.
      label_list: labels from `get_labels` of the task's processor.
      max_seq_length: length of the feature.

    Raises:
      UserError: the label is not in `label_list`.
    """
    feature = _feature(example, label_list, max_seq_length, tokenizer)
    return InputFeatures(
        *padded(feature.sequence, max_seq_length),
        label_id=feature.label_id,
        is_real_example=feature.is_real_example,
    )


def _feature(example, label_list, max_seq_length, tokenizer) -> Feature:
    if isinstance(example, PaddingInputExample):
        label_id = 0.0 if list(label_list) == [None] else 0
        return Feature(TokenSequence([], 0), label_id, is_real_example=False)
    # A processor has already normalized the texts.
    ids_a, ids_b = (
        tokenizer.convert_tokens_to_ids(tokenizer.tokenize(text)) if text else []
        for text in (example.text_a, example.text_b)
    )
    special_ids = tokenizer.convert_tokens_to_ids(["[CLS]", "[SEP]"])
    return make_feature(example, ids_a, ids_b, special_ids, label_list, max_seq_length)


def convert_examples_to_features(
    examples, label_list, max_seq_length, tokenizer, task_name
) -> list[InputFeatures]:
    """Returns the features of examples; see `convert_single_example`."""
    return [
        convert_single_example(number, example, label_list, max_seq_length, tokenizer, task_name)
        for number, example in enumerate(examples)
    ]


def file_based_convert_examples_to_features(
    examples, label_list, max_seq_length, tokenizer, output_file, task_name
) -> None:
    """Writes the features of examples to a TFRecord file; see `convert_single_example`."""
    with tf.io.TFRecordWriter(output_file) as writer:
        for example in examples:
            feature = _feature(example, label_list, max_seq_length, tokenizer)
            writer.write(serialize(feature, max_seq_length))
