"""The reference's functions for RACE."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow.compat.v1 as tf

from albert.records.sequences import SEQUENCE_KEYS, padded
from albert.reference_api.common import create_albert, model_fn_of
from albert.reference_api.glue import InputFeatures
from albert.tasks.classification.head import choose, make_choice_head, one_a_row
from albert.tasks.race.examples import make_records, make_sequences


def convert_single_example(
    example_index, example, label_size, max_seq_length, tokenizer, max_qa_length
) -> InputFeatures:
    """Converts an `InputExample` to lists of `max_seq_length` integers for each of its endings.

    `example_index` and `label_size` are not used; for the others, see
    `albert.tasks.race.examples.make_sequences`.
    """
    sequences = make_sequences(example, tokenizer, max_seq_length, max_qa_length)
    rows = [padded(sequence, max_seq_length) for sequence in sequences]
    ids, masks, segments = map(list, zip(*rows, strict=True))
    return InputFeatures(ids, masks, segments, example.label, None, example.example_id)


def file_based_convert_examples_to_features(
    examples, label_list, max_seq_length, tokenizer, output_file, max_qa_length
) -> None:
    """Writes the features of examples to a TFRecord file; see `convert_single_example`."""
    with tf.io.TFRecordWriter(output_file) as writer:
        for record in make_records(examples, tokenizer, (max_seq_length, max_qa_length)):
            writer.write(record)


def create_model(
    albert_config,
    is_training,
    input_ids,
    input_mask,
    segment_ids,
    labels,
    num_labels,
    use_one_hot_embeddings,
    max_seq_length,
    dropout_prob,
    hub_module,
) -> tuple[tf.Tensor | None, tf.Tensor | None, tf.Tensor, tf.Tensor, tf.Tensor]:
    """Builds ALBERT and RACE's head; returns what `classifier_utils.create_model` does.

    The inputs are int32 [B, N, S] or [B, N * S] for N options, which are `num_labels`; `labels` are
    int32 [B], or None. `dropout_prob` is the dropout rate of the head's input in training.
    `max_seq_length` is not used. For the others, see `common.create_albert`.
    """
    sequences = dict(zip(SEQUENCE_KEYS, (input_ids, input_mask, segment_ids), strict=True))
    ids, masks, segments = one_a_row(sequences, num_labels).values()
    flags = use_one_hot_embeddings, True, hub_module
    pooled, _ = create_albert(albert_config, is_training, ids, masks, segments, *flags)
    output = choose(pooled, labels, dropout_prob if is_training else 0.0, num_labels)
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
    max_seq_length,
    dropout_prob,
    hub_module,
) -> Callable:
    """Returns the `model_fn` for RACE; see `create_model` and `common.model_fn_of`."""
    schedule = learning_rate, num_train_steps, num_warmup_steps
    flags = use_tpu, hub_module, use_one_hot_embeddings, True
    head = make_choice_head(dropout_prob, num_labels)
    return model_fn_of(albert_config, head, init_checkpoint, schedule, flags)
