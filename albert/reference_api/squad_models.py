"""The reference's functions for SQuAD's batches and models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import tensorflow.compat.v1 as tf

from albert.prediction.model import Encode, Head, HeadOutput
from albert.reference_api.common import create_albert, input_fn_of, model_fn_of, refuse
from albert.tasks.squad.features import feature_spec
from albert.tasks.squad.head import (
    V2Options,
    answer_outputs,
    answer_scores,
    make_v1_head,
    make_v2_head,
)


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
    head = _with_all_scores(make_v1_head(mask_padding_in_loss=False))
    return model_fn_of(albert_config, head, init_checkpoint, schedule, flags)


def _with_all_scores(head: Head) -> Head:
    """Returns a head that predicts the scores of all positions, as the reference's head does."""

    def whole(encode: Encode, features: Mapping[str, tf.Tensor], is_training: bool) -> HeadOutput:
        output = head(encode, features, is_training)
        return output._replace(predictions=output.exported or output.predictions)

    return whole


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
