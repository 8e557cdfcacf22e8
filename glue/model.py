"""The classification head on ALBERT: a score for every label, or one number in regression."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow.compat.v1 as tf

import modeling
import optimization
from fine_tuning_utils import create_albert
from runtime import estimators


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
    *,
    use_einsum: bool = False,
    dropout: float = 0.1,
) -> tuple[tf.Tensor | None, tf.Tensor | None, tf.Tensor, tf.Tensor, tf.Tensor]:
    """ALBERT, its classification head, and the loss.

    Args:
      albert_config: an `AlbertConfig`.
      is_training: whether dropout is applied.
      input_ids, input_mask, segment_ids: int32 [B, S].
      labels: int32 [B], or float32 [B] in regression; None for no loss.
      num_labels: C; 1 for regression.
      use_one_hot_embeddings, use_einsum: see `modeling.AlbertModel`.
      task_name: not used; the number of labels tells regression.
      hub_module: must be None.
      dropout: the probability in training that the head does not see a unit.

    Returns:
      The mean loss; the losses [B]; the probabilities [B, C]; the logits [B, C]; the predicted
      labels, int32 [B]. In regression the loss is the squared difference, the probabilities are the
      numbers, [B, 1], and so are, [B], the logits and the predictions.
    """
    pooled, _ = create_albert(
        albert_config,
        is_training,
        input_ids,
        input_mask,
        segment_ids,
        use_one_hot_embeddings,
        use_einsum,
        hub_module,
    )
    weights = tf.get_variable(
        "output_weights",
        [num_labels, pooled.shape[-1]],
        initializer=modeling.create_initializer(0.02),
    )
    bias = tf.get_variable("output_bias", [num_labels], initializer=tf.zeros_initializer())
    with tf.variable_scope("loss"):
        if is_training:
            pooled = modeling.dropout(pooled, dropout)
        logits = tf.nn.bias_add(tf.matmul(pooled, weights, transpose_b=True), bias)
        if num_labels == 1:
            return _regression(logits, labels)
        return _classification(logits, labels)


def _classification(logits: tf.Tensor, labels: tf.Tensor | None) -> tuple:
    probabilities = tf.nn.softmax(logits)
    predictions = tf.argmax(logits, axis=-1, output_type=tf.int32)
    losses = None
    if labels is not None:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    return _mean(losses), losses, probabilities, logits, predictions


def _regression(outputs: tf.Tensor, labels: tf.Tensor | None) -> tuple:
    numbers = tf.squeeze(outputs, [-1])
    losses = None if labels is None else tf.square(numbers - labels)
    return _mean(losses), losses, outputs, numbers, numbers


def _mean(losses: tf.Tensor | None) -> tf.Tensor | None:
    return None if losses is None else tf.reduce_mean(losses)


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
    *,
    use_einsum: bool = False,
    dropout: float = 0.1,
    threshold: float | None = None,
    optimizer_options: Mapping[str, Any] | None = None,
) -> Callable:
    """Returns the `model_fn` of an `Estimator` for classification or regression.

    Its predictions are `probabilities`, `predictions` and `logits` of `create_model`, and
    `label_ids` and `is_real_example` where the features have them.

    Args:
      albert_config, num_labels, use_one_hot_embeddings, task_name, hub_module, use_einsum,
        dropout: see `create_model`.
      init_checkpoint: checkpoint that variables start from, or None.
      learning_rate, num_train_steps, num_warmup_steps, use_tpu, optimizer: see
        `optimization.create_optimizer`.
      threshold: a number that an exported model gives out as `threshold`, None for none.
      optimizer_options: further arguments of `optimization.create_optimizer`.
    """

    def model_fn(features, labels, mode, params):
        del labels, params
        is_training = mode == estimators.ModeKeys.TRAIN
        loss, _, probabilities, logits, predictions = create_model(
            albert_config,
            is_training,
            features["input_ids"],
            features["input_mask"],
            features["segment_ids"],
            features["label_ids"] if is_training else None,
            num_labels,
            use_one_hot_embeddings,
            task_name,
            hub_module,
            use_einsum=use_einsum,
            dropout=dropout,
        )
        if mode == estimators.ModeKeys.PREDICT:
            outputs = {
                "probabilities": probabilities,
                "predictions": predictions,
                "logits": logits,
            }
            exported = {**outputs, **({} if threshold is None else _constant(threshold))}
            given = {k: features[k] for k in ("label_ids", "is_real_example") if k in features}
            return estimators.EstimatorSpec(
                mode,
                predictions={**outputs, **given},
                export_outputs={_DEFAULT: estimators.PredictOutput(exported)},
            )
        if not is_training:
            raise ValueError(f"Only TRAIN and PREDICT modes are supported: {mode}")

        return optimization.training_spec(
            loss,
            features["input_mask"],
            init_checkpoint,
            learning_rate,
            num_train_steps,
            num_warmup_steps,
            use_tpu,
            optimizer,
            **(optimizer_options or {}),
        )

    return model_fn


_DEFAULT = tf.saved_model.signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY


def _constant(threshold: float) -> dict[str, tf.Tensor]:
    return {"threshold": tf.constant(threshold, tf.float32)}
