"""The reference's functions for SQuAD's features, batches and models.

Features are in the reference's form: lists, one example at a time.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from albert.records import tf_example
from albert.records.sequences import padded
from albert.reference_api.common import create_albert, input_fn_of, model_fn_of, refuse
from albert.tasks.squad.features import (
    FIRST_UNIQUE_ID,
    SquadExample,
    Window,
    WindowMaker,
    feature_spec,
)
from albert.tasks.squad.head import (
    V2Options,
    answer_outputs,
    answer_scores,
    make_v1_head,
    make_v2_head,
)
from albert.tokenization import FullTokenizer


@dataclasses.dataclass(eq=False)
class InputFeatures:
    """A feature in the reference's form; lists have `max_seq_length` items unless noted.

    Attributes:
      unique_id: number of the feature, from 1000000000.
      example_index: number of the example in prediction; None in training.
      doc_span_index: number of the window in the paragraph.
      tok_start_to_orig_index, tok_end_to_orig_index: first and last character in the paragraph of
        each token of the window.
      token_is_max_context: for the position of each of the window's tokens, whether no other window
        gives the token more context on its shorter side.
      tokens: pieces, without padding.
      paragraph_len: number of tokens, without padding.
      p_mask: 1 where no answer can be (question, [SEP] and padding), 0 elsewhere.
      start_position, end_position: the answer's first and last position; 0 if the window does not
        contain it; None in prediction.
      is_impossible: whether the window does not contain the answer, or there is no answer.
    """

    unique_id: int
    example_index: Any
    doc_span_index: int
    tok_start_to_orig_index: list[int]
    tok_end_to_orig_index: list[int]
    token_is_max_context: dict[int, bool]
    tokens: list[str]
    input_ids: list[int]
    input_mask: list[int]
    segment_ids: list[int]
    paragraph_len: int
    p_mask: Any = None
    start_position: Any = None
    end_position: Any = None
    is_impossible: Any = None


def convert_examples_to_features(
    examples: Iterable[SquadExample],
    tokenizer: FullTokenizer,
    max_seq_length: int,
    doc_stride: int,
    max_query_length: int,
    is_training: bool,
    output_fn: Callable[[InputFeatures], None],
    do_lower_case: bool,
) -> None:
    """Converts examples and passes each feature to `output_fn`, in order.

    With `is_training`, features have the answer's positions. Lengths are in tokens.
    """
    tokenizer = copy.copy(tokenizer)
    tokenizer.do_lower_case = do_lower_case
    maker = WindowMaker(tokenizer, max_seq_length, doc_stride, max_query_length)
    unique_id = FIRST_UNIQUE_ID
    impossible = 0
    for index, example in enumerate(examples):
        for window in maker.windows([example], index):
            feature = _input_features(window, unique_id, tokenizer, max_seq_length, is_training)
            if not is_training:
                feature.is_impossible = example.is_impossible
            output_fn(feature)
            unique_id += 1
            impossible += bool(feature.is_impossible)
    count = unique_id - FIRST_UNIQUE_ID
    tf.logging.info(
        "%d features: %d with an answer, %d without", count, count - impossible, impossible
    )


def _input_features(
    window: Window, unique_id: int, tokenizer: FullTokenizer, max_seq_length: int, is_training: bool
) -> InputFeatures:
    ids, mask, segments = padded(window.sequence(tokenizer), max_seq_length)
    start, end = window.positions if is_training else (None, None)
    first, last = window.doc_offset, window.length - 1
    p_mask = [1] * max_seq_length
    p_mask[0], p_mask[first:last] = 0, [0] * (last - first)
    return InputFeatures(
        unique_id=unique_id,
        example_index=None if is_training else window.example_index,
        doc_span_index=window.number,
        tok_start_to_orig_index=window.paragraph.starts[window.begin : window.end].tolist(),
        tok_end_to_orig_index=window.paragraph.ends[window.begin : window.end].tolist(),
        token_is_max_context=dict(enumerate(window.max_context.tolist(), start=first)),
        tokens=tokenizer.convert_ids_to_tokens(ids[: window.length]),
        input_ids=ids,
        input_mask=mask,
        segment_ids=segments,
        paragraph_len=window.length,
        p_mask=p_mask,
        start_position=start,
        end_position=end,
        is_impossible=window.answer is None if is_training else None,
    )


class FeatureWriter:
    """A writer of `InputFeatures` to a TFRecord file; `num_features` counts them."""

    def __init__(self, filename, is_training):
        self.filename = filename
        self.is_training = is_training
        self.num_features = 0
        self._writer = tf.io.TFRecordWriter(filename)

    def process_feature(self, feature: InputFeatures) -> None:
        """Appends one feature."""
        fields = {
            "unique_ids": [feature.unique_id],
            "input_ids": feature.input_ids,
            "input_mask": feature.input_mask,
            "segment_ids": feature.segment_ids,
            "p_mask": feature.p_mask,
        }
        if self.is_training:
            fields["start_positions"] = [feature.start_position]
            fields["end_positions"] = [feature.end_position]
            fields["is_impossible"] = [int(feature.is_impossible)]
        self._writer.write(tf_example.serialize(fields))
        self.num_features += 1

    def close(self) -> None:
        """Closes the file, which is then complete."""
        self._writer.close()


def input_fn_builder(
    input_file: str | Sequence[str],
    seq_length: int,
    is_training: bool,
    drop_remainder: bool,
    use_tpu: bool,
    bsz: int,
    is_v2: bool,
) -> Callable[[dict], tf.data.Dataset]:
    """Returns an `input_fn` that reads feature files; see `common.input_fn_of`.

    Batches are dictionaries, int32 [B, S] or [B], of `bsz` features: with the answers in training,
    and with `p_mask` if `is_v2`.
    """
    refuse(use_tpu=use_tpu)
    spec = feature_spec(seq_length, is_training, with_p_mask=is_v2)
    return input_fn_of(input_file, spec, bsz, is_training, drop_remainder)


def create_v1_model(
    albert_config,
    is_training,
    input_ids,
    input_mask,
    segment_ids,
    use_one_hot_embeddings,
    use_einsum,
    hub_module,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Builds `common.create_albert` and its SQuAD head; returns start and end scores [B, S]."""
    inputs = input_ids, input_mask, segment_ids
    flags = use_one_hot_embeddings, use_einsum, hub_module
    return answer_scores(create_albert(albert_config, is_training, *inputs, *flags)[1])


def v1_model_fn_builder(
    albert_config,
    init_checkpoint,
    learning_rate,
    num_train_steps,
    num_warmup_steps,
    use_tpu,
    use_one_hot_embeddings,
    use_einsum,
    hub_module,
) -> Callable:
    """Returns the `model_fn` of an `Estimator` for SQuAD 1.1; see `common.model_fn_of`.

    As in the reference, padding counts in the loss; see `squad.head.make_v1_head`.
    """
    schedule = learning_rate, num_train_steps, num_warmup_steps
    flags = use_tpu, hub_module, use_one_hot_embeddings, use_einsum
    head = make_v1_head(mask_padding_in_loss=False, num_best=None)
    return model_fn_of(albert_config, head, init_checkpoint, schedule, flags)


def create_v2_model(
    albert_config,
    is_training,
    input_ids,
    input_mask,
    segment_ids,
    use_one_hot_embeddings,
    features,
    max_seq_length,
    start_n_top,
    end_n_top,
    dropout_prob,
    hub_module,
) -> dict[str, tf.Tensor]:
    """Builds ALBERT and its SQuAD 2.0 head; returns `squad.head.answer_outputs`.

    `features` has `p_mask` [B, S] and, in training, `start_positions` [B], on which the ends then
    depend. `max_seq_length` is not used. For the others, see `common.create_albert` and
    `squad.head.V2Options`.
    """
    inputs, flags = (input_ids, input_mask, segment_ids), (use_one_hot_embeddings, True, hub_module)
    _, states = create_albert(albert_config, is_training, *inputs, *flags)
    options = V2Options(start_n_top, end_n_top, dropout_prob, albert_config.initializer_range)
    starts = features["start_positions"] if is_training else None
    return answer_outputs(states, features["p_mask"], options, starts)


def v2_model_fn_builder(
    albert_config,
    init_checkpoint,
    learning_rate,
    num_train_steps,
    num_warmup_steps,
    use_tpu,
    use_one_hot_embeddings,
    max_seq_length,
    start_n_top,
    end_n_top,
    dropout_prob,
    hub_module,
) -> Callable:
    """Returns the `model_fn` of an `Estimator` for SQuAD 2.0.

    For the arguments, see `common.model_fn_of` and `squad.head.V2Options`.
    """
    schedule = learning_rate, num_train_steps, num_warmup_steps
    flags = use_tpu, hub_module, use_one_hot_embeddings, True
    spread = albert_config.initializer_range
    head = make_v2_head(V2Options(start_n_top, end_n_top, dropout_prob, spread))
    return model_fn_of(albert_config, head, init_checkpoint, schedule, flags)
