"""The `model_fn` of an estimator: an encoder, a head and, in training, an optimizer."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from albert.checkpoints.initialization import (
    initialize_from_checkpoint,
)
from albert.core import estimators
from albert.modeling import Encoder, EncoderConfig, Packing
from albert.optimization import OptimizerOptions, build_train_step
from albert.settings.fields import TOO_LARGE
from albert.settings.run_settings import ONNXRUNTIME, TENSORFLOW

# Builds an encoder from a mapping with `input_ids`, `input_mask` and `segment_ids`, int32 [B, S],
# the `positions` that the last layer must compute, and a `Packing`; see `modeling.Encoder`.
Encode = Callable[..., Encoder]


class HeadOutput(NamedTuple):
    """The loss and predictions of a head.

    Attributes:
      loss: scalar in training, else None.
      predictions: tensors with B rows, by name.
      exported: the outputs of an exported model, by name; None if they are the predictions.
    """

    loss: tf.Tensor | None
    predictions: dict[str, tf.Tensor]
    exported: dict[str, tf.Tensor] | None = None


# Builds the output from an encoder, features, and whether the model is trained.
Head = Callable[[Encode, Mapping[str, tf.Tensor], bool], HeadOutput]


class ModelOptions(NamedTuple):
    """Options of a model in addition to its configuration and head; see also `modeling.Encoder`.

    Attributes:
      optimizer: the optimizer's options; None without training.
      num_groups: number of layer groups that start from the checkpoint's first group; 0 if each
        group starts from its own.
      gradient_checkpointing: only in training.
      engine: one of `ENGINES`, which computes the encoder in prediction.
      remove_padding: only for batches that are shortened when they are read. If all batches have
        one length, a device may need to know every shape.
    """

    optimizer: OptimizerOptions | None = None
    init_checkpoint: str | None = None
    num_groups: int = 0
    use_one_hot_embeddings: bool = False
    use_einsum: bool = False
    gradient_checkpointing: bool = False
    remove_padding: bool = False
    engine: str = TENSORFLOW


def make_model_fn(config: EncoderConfig, head: Head, options: ModelOptions) -> Callable:
    """Returns the `model_fn` of an `Estimator`: encoder, head and, in training, optimizer.

    In training, the `EstimatorSpec` carries a `TrainStep`, see `estimators.graph_parts`.
    """

    def model_fn(features, labels, mode, params):
        del labels, params
        is_training = mode == estimators.ModeKeys.TRAIN
        if not is_training and mode != estimators.ModeKeys.PREDICT:
            raise ValueError(f"Only TRAIN and PREDICT modes are supported: {mode}")

        hooks: list[tf.train.SessionRunHook] = []

        def encode(
            sequences: Mapping[str, tf.Tensor],
            positions: tf.Tensor | None = None,
            packing: Packing | None = None,
        ) -> Encoder:
            inputs = sequences["input_ids"], sequences["input_mask"], sequences["segment_ids"]
            if options.engine == ONNXRUNTIME and not is_training:
                # An optional package.
                from albert.onnx.encoder import OnnxEncoder

                encoder = OnnxEncoder(config, *inputs, positions)
                hooks.append(encoder.hook)
                return encoder
            return Encoder(
                config,
                is_training,
                *inputs,
                options.use_one_hot_embeddings,
                options.use_einsum,
                gradient_checkpointing=options.gradient_checkpointing and is_training,
                remove_padding=options.remove_padding and inputs[0].shape[1] is None,
                positions=positions,
                packing=packing,
            )

        scope = tf.get_variable_scope()
        with tf.variable_scope(scope, custom_getter=_seed_by_name, auxiliary_name_scope=False):
            output = head(encode, features, is_training)
        if not is_training:
            exported = output.predictions if output.exported is None else output.exported
            return estimators.EstimatorSpec(
                mode,
                predictions=output.predictions,
                prediction_hooks=hooks,
                export_outputs={_DEFAULT: estimators.PredictOutput(exported)},
            )
        if checkpoint := options.init_checkpoint:
            variables = tf.trainable_variables()
            initialize_from_checkpoint(variables, checkpoint, options.num_groups).log()
        assert options.optimizer is not None, "training needs an optimizer"
        num_tokens = tf.reduce_sum(features["input_mask"])
        step = build_train_step(output.loss, options.optimizer, num_tokens=num_tokens)
        carrier, loss = estimators.GraphParts(step), output.loss
        if step.scaling:
            # An estimator ends the training at a NaN, but a step with a NaN may be skipped.
            loss = tf.where(tf.math.is_nan(loss), tf.zeros_like(loss), loss)
        return estimators.EstimatorSpec(mode, loss=loss, train_op=step.op, training_hooks=[carrier])

    return model_fn


def _seed_by_name(getter: Callable, name: str, *args: Any, **options: Any) -> tf.Variable:
    """Seeds a variable's initial value by its name, not by the number of earlier operations."""
    # So options that only change how the result is computed keep the initial weights.
    initializer = options.get("initializer")
    is_seeded = tf.get_default_graph().seed is not None
    if is_seeded and isinstance(initializer, tf.truncated_normal_initializer):
        initializer.seed = zlib.crc32(name.encode()) % TOO_LARGE
    return getter(name, *args, **options)


_DEFAULT = tf.saved_model.signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY
