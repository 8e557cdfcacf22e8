"""The reference's functions for classification: features, batches and models.

Features are in the reference's form: lists, one example at a time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from albert.records.sequences import SEQUENCE_KEYS, TokenSequence, cut_sequence, padded
from albert.reference_api.common import create_albert, input_fn_of, model_fn_of, refuse
from albert.tasks.classification.head import classify, make_head
from albert.tasks.classification.records import feature_spec, serialize
from albert.tasks.glue.features import label_id

# The dropout rate of the head's input in training.
_DROPOUT = 0.1


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

    The example may also be a `PaddingInputExample`. `ex_index` and `task_name` are not used. Raises
    a `UserError` if the label is not in `label_list`.
    """
    sequence, label, is_real = _feature(example, label_list, max_seq_length, tokenizer)
    columns = padded(sequence, max_seq_length)
    return InputFeatures(*columns, label_id=label, is_real_example=is_real)


def _feature(example, label_list, max_seq_length, tokenizer) -> tuple[TokenSequence, Any, bool]:
    """Returns an example's sequence, its label, and whether it is no `PaddingInputExample`."""
    if isinstance(example, PaddingInputExample):
        return TokenSequence([], 0), 0.0 if list(label_list) == [None] else 0, False
    # A processor has already normalized the texts.
    ids_a, ids_b = (
        tokenizer.convert_tokens_to_ids(tokenizer.tokenize(text)) if text else []
        for text in (example.text_a, example.text_b)
    )
    special_ids = tokenizer.convert_tokens_to_ids(["[CLS]", "[SEP]"])
    sequence = cut_sequence(ids_a, ids_b, special_ids, max_seq_length)
    return sequence, label_id(example, label_list), True


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
            sequence, label, is_real = _feature(example, label_list, max_seq_length, tokenizer)
            writer.write(serialize([sequence], label, max_seq_length, is_real))


def input_fn_builder(
    features: Sequence[InputFeatures], seq_length: int, is_training: bool, drop_remainder: bool
) -> Callable[[dict], tf.data.Dataset]:
    """Returns an `input_fn` for features in memory.

    In training, it repeats the features endlessly, in another order in every epoch. Otherwise, it
    makes one pass in order. `drop_remainder` drops a last batch that is not full. Its `params` have
    "batch_size". Batches are dictionaries: int32 [B, S] or [B]; `label_ids` are float32 if labels
    are numbers.
    """
    shape = [len(features), seq_length]
    columns = {
        key: np.array([getattr(f, key) for f in features], np.int32).reshape(shape)
        for key in SEQUENCE_KEYS
    }
    labels = [f.label_id for f in features]
    kind = np.float32 if any(isinstance(label, float) for label in labels) else np.int32
    columns["label_ids"] = np.array(labels, kind)

    def input_fn(params: dict) -> tf.data.Dataset:
        data = tf.data.Dataset.from_tensor_slices(columns)
        if is_training:
            data = data.shuffle(len(features)).repeat()
        return data.batch(params["batch_size"], drop_remainder)

    return input_fn


def file_based_input_fn_builder(
    input_file: str | Sequence[str],
    seq_length: int,
    is_training: bool,
    drop_remainder: bool,
    task_name: str,
    use_tpu: bool,
    bsz: int,
    multiple: int = 1,
) -> Callable[[dict], tf.data.Dataset]:
    """Returns an `input_fn` that reads feature files; see `common.input_fn_of`.

    A batch has `bsz` features, each with `multiple` concatenated sequences. Batches are
    dictionaries: int32 [B, S] or [B]; `label_ids` are float32 for the task "sts-b".
    """
    refuse(use_tpu=use_tpu)
    spec = feature_spec([seq_length * multiple], is_regression=task_name == "sts-b")
    return input_fn_of(input_file, spec, bsz, is_training, drop_remainder)


def create_model(
    albert_config,
    is_training,
    input_ids,
    input_mask,
    segment_ids,
    labels,
    num_labels,
    use_one_hot_embeddings,
    task_name,
    hub_module,
) -> tuple[tf.Tensor | None, tf.Tensor | None, tf.Tensor, tf.Tensor, tf.Tensor]:
    """Builds ALBERT and its classification head; see `common.create_albert` for most arguments.

    `labels` are int32 [B], for regression float32 [B], or None to compute no loss. `num_labels` is
    1 for regression. `task_name` is not used. Returns the mean loss, the losses [B], and the rest
    of `classification.head.ClassifierOutput`.
    """
    inputs = input_ids, input_mask, segment_ids
    flags = use_one_hot_embeddings, False, hub_module
    pooled, _ = create_albert(albert_config, is_training, *inputs, *flags)
    output = classify(pooled, labels, _DROPOUT if is_training else 0.0, num_labels)
    return output.loss, *output


def model_fn_builder(
    albert_config,
    num_labels,
    init_checkpoint,
    learning_rate,
    num_train_steps,
    num_warmup_steps,
    use_tpu,
    use_one_hot_embeddings,
    task_name,
    hub_module=None,
    optimizer="adamw",
) -> Callable:
    """Returns the `model_fn` of an `Estimator` for classification or regression.

    For the arguments, see `create_model` and `common.model_fn_of`; for the predictions,
    `classification.head.make_head`.
    """
    schedule = learning_rate, num_train_steps, num_warmup_steps
    flags = use_tpu, hub_module, use_one_hot_embeddings, False
    head = make_head(num_labels, _DROPOUT)
    return model_fn_of(albert_config, head, init_checkpoint, schedule, flags, optimizer)
