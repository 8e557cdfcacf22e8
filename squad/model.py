"""The SQuAD 1.1 head on ALBERT: a start and an end score for every token."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow.compat.v1 as tf

import modeling
import optimization
from fine_tuning_utils import create_albert
from runtime import estimators

# Added to the scores of padding where the loss is not to see it; finite in bfloat16 too.
_PADDING_SCORE = -1e30


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
    """ALBERT and its SQuAD head.

    Args:
      albert_config: an `AlbertConfig`.
      is_training: whether dropout is applied.
      input_ids, input_mask, segment_ids: int32 [B, S].
      use_one_hot_embeddings, use_einsum: see `modeling.AlbertModel`.
      hub_module: must be None.

    Returns:
      Start and end scores, float32 [B, S] each.
    """
    _, states = create_albert(
        albert_config,
        is_training,
        input_ids,
        input_mask,
        segment_ids,
        use_one_hot_embeddings,
        use_einsum,
        hub_module,
    )
    batch_size, seq_length, hidden_size = modeling.get_shape_list(states, expected_rank=3)
    weights = tf.get_variable(
        "cls/squad/output_weights",
        [2, hidden_size],
        initializer=modeling.create_initializer(0.02),
    )
    bias = tf.get_variable("cls/squad/output_bias", [2], initializer=tf.zeros_initializer())
    scores = tf.matmul(tf.reshape(states, [-1, hidden_size]), weights, transpose_b=True)
    scores = tf.reshape(tf.nn.bias_add(scores, bias), [batch_size, seq_length, 2])
    return scores[:, :, 0], scores[:, :, 1]


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
    *,
    mask_padding_in_loss: bool = False,
    optimizer_options: Mapping[str, Any] | None = None,
) -> Callable:
    """Returns the `model_fn` of an `Estimator` for SQuAD 1.1.

    The loss is the mean cross-entropy of start and end. As in the reference the softmax runs over
    all positions, so that the loss depends on how far a batch is padded, unless
    `mask_padding_in_loss` takes padding out of it.

    Args:
      albert_config: an `AlbertConfig`.
      init_checkpoint: checkpoint that variables start from, or None.
      learning_rate, num_train_steps, num_warmup_steps, use_tpu: see
        `optimization.create_optimizer`.
      use_one_hot_embeddings, use_einsum, hub_module: see `create_v1_model`.
      mask_padding_in_loss: give padding no probability.
      optimizer_options: further arguments of `optimization.create_optimizer`.
    """

    def model_fn(features, labels, mode, params):
        del labels, params
        start_logits, end_logits = create_v1_model(
            albert_config,
            mode == estimators.ModeKeys.TRAIN,
            features["input_ids"],
            features["input_mask"],
            features["segment_ids"],
            use_one_hot_embeddings,
            use_einsum,
            hub_module,
        )
        if mask_padding_in_loss:
            padding = 1.0 - tf.cast(features["input_mask"], tf.float32)
            start_logits += padding * _PADDING_SCORE
            end_logits += padding * _PADDING_SCORE
        start_logits = tf.identity(start_logits, name="start_logits")
        end_logits = tf.identity(end_logits, name="end_logits")
        if mode == estimators.ModeKeys.PREDICT:
            predictions = {"start_log_prob": start_logits, "end_log_prob": end_logits}
            if "unique_ids" in features:
                predictions["unique_ids"] = features["unique_ids"]
            return estimators.EstimatorSpec(mode, predictions=predictions)
        if mode != estimators.ModeKeys.TRAIN:
            raise ValueError(f"Only TRAIN and PREDICT modes are supported: {mode}")

        loss = 0.5 * (
            _cross_entropy(start_logits, features["start_positions"])
            + _cross_entropy(end_logits, features["end_positions"])
        )
        return optimization.training_spec(
            loss,
            features["input_mask"],
            init_checkpoint,
            learning_rate,
            num_train_steps,
            num_warmup_steps,
            use_tpu,
            **(optimizer_options or {}),
        )

    return model_fn


def _cross_entropy(logits: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
    """Mean cross-entropy of scores [B, S] and true positions [B]."""
    return tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=positions, logits=logits)
    )
