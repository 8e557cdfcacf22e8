"""A model: an encoder with a head, and the `model_fn` with which it predicts."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from albert.core import estimators
from albert.modeling import Encoder, EncoderConfig, Packing
from albert.optimizers.schedule import OptimizerOptions
from albert.settings.engines import OPENVINO, TENSORFLOW

# The name of the outputs of an exported model.
DEFAULT_SIGNATURE = tf.saved_model.signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY
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
      new_head, labels: see `compare_with_checkpoint`.
      gradient_checkpointing: only in training.
      engine: one of `ENGINES`, which computes the encoder in prediction.
      precision: the type of the products of another engine than TensorFlow: "float32" or
        "bfloat16".
      quantized: path of an encoder in int8, which takes the place of the variables' in OpenVINO.
      at_once: batches that OpenVINO computes at a time; with 1, a batch has all cores.
      remove_padding: only for batches that are shortened when they are read. If all batches have
        one length, a device may need to know every shape.
    """

    optimizer: OptimizerOptions | None = None
    init_checkpoint: str | None = None
    num_groups: int = 0
    new_head: bool | None = None
    labels: Sequence[str | None] = ()
    use_one_hot_embeddings: bool = False
    use_einsum: bool = False
    gradient_checkpointing: bool = False
    remove_padding: bool = False
    engine: str = TENSORFLOW
    precision: str = "float32"
    quantized: str = ""
    at_once: int = 1


def make_predict_fn(config: EncoderConfig, head: Head, options: ModelOptions) -> Callable:
    """Returns the `model_fn` of a model that predicts; it ignores its arguments after the first."""

    def predict_fn(features, labels=None, mode=None, params=None):
        hooks: list[tf.train.SessionRunHook] = []
        output = build_output(config, head, options, features, hooks)
        exported = output.predictions if output.exported is None else output.exported
        return estimators.EstimatorSpec(
            estimators.ModeKeys.PREDICT,
            predictions=output.predictions,
            prediction_hooks=hooks,
            export_outputs={DEFAULT_SIGNATURE: estimators.PredictOutput(exported)},
        )

    return predict_fn


def build_output(
    config: EncoderConfig,
    head: Head,
    options: ModelOptions,
    features: Mapping[str, tf.Tensor],
    hooks: list[tf.train.SessionRunHook] | None = None,
) -> HeadOutput:
    """Builds a model's output in the current graph, in which it creates its variables.

    `hooks` receives the hooks that a session for prediction needs; it is None in training.
    """
    is_training = hooks is None

    def encode(
        sequences: Mapping[str, tf.Tensor],
        positions: tf.Tensor | None = None,
        packing: Packing | None = None,
    ) -> Encoder:
        inputs = sequences["input_ids"], sequences["input_mask"], sequences["segment_ids"]
        if options.engine == OPENVINO and hooks is not None:
            # An optional package.
            from albert.openvino.encoder import OpenVinoEncoder

            chosen = options.precision, options.quantized, options.at_once
            encoder = OpenVinoEncoder(config, *inputs, positions, *chosen)
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
        return head(encode, features, is_training)


def _seed_by_name(getter: Callable, name: str, *args: Any, **options: Any) -> tf.Variable:
    """Seeds a variable's initial value by its name, not by the number of earlier operations."""
    # So options that only change how the result is computed keep the initial weights.
    initializer = options.get("initializer")
    is_seeded = tf.get_default_graph().seed is not None
    if is_seeded and isinstance(initializer, tf.truncated_normal_initializer):
        initializer.seed = zlib.crc32(name.encode()) % 2**31
    return getter(name, *args, **options)
