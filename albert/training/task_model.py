"""The model of a task: its graph, in the precision and by the engine of the flags; its assets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow.compat.v1 as tf

from albert.checkpoints.model_folder import TOKENIZERS, Assets, used_model
from albert.devices import device
from albert.distributed import collectives
from albert.optimization import OptimizerOptions
from albert.precision import conversion
from albert.prediction.model import ModelOptions
from albert.prediction.session import AT_ONCE
from albert.settings.engines import OPENVINO
from albert.settings.run_settings import RunSettings
from albert.tokenizers.text_rules import Normalization
from albert.training.model_fn import make_model_fn
from albert.training.plan import Steps
from albert.training.task import CONFIG_FLAGS, Task, precision_config, quantized_start


def model_fn(task: Task, steps: Steps | None, **engine: Any) -> Callable:
    """Returns the `model_fn` of a task's model; `steps` are of the training, None for prediction.

    `engine` is what else than TensorFlow computes the encoder in prediction: `engine`, `precision`
    and `quantized` of `ModelOptions`.
    """
    settings = task.settings
    options = ModelOptions(
        optimizer_options(settings, steps) if steps else None,
        settings.init_checkpoint,
        task.num_groups,
        new_head=settings.new_head,
        labels=task.labels,
        use_einsum=settings.use_einsum,
        gradient_checkpointing=settings.gradient_checkpointing,
        remove_padding=removes_padding(task),
        at_once=AT_ONCE,
        **engine,
    )
    return make_model_fn(task.config, task.head(), options)


def converted_model_fn(task: Task, steps: Steps | None) -> Callable:
    """Returns the `model_fn` that computes in the precision and by the engine of the flags."""
    config, settings = precision_config(task), task.settings
    if steps is None and settings.engine == OPENVINO:
        precision = config.dtype.name if config else "float32"
        options = {"precision": precision, "quantized": quantized_start(settings)}
        return model_fn(task, None, engine=OPENVINO, **options)
    return conversion.convert(model_fn(task, steps), config, device.kind())


def removes_padding(task: Task) -> bool:
    """Returns whether the layers skip padding; never on the HPU, which needs fixed shapes."""
    return task.settings.remove_padding and task.trims and not device.is_hpu()


def optimizer_options(settings: RunSettings, steps: Steps) -> OptimizerOptions:
    """Returns the optimizer's options for a training of some steps."""
    wire, workers = settings.allreduce_dtype, collectives.size()
    return OptimizerOptions(
        learning_rate=settings.learning_rate * (workers if settings.scale_learning_rate else 1),
        optimizer=settings.optimizer,
        gradient_accumulation_steps=settings.gradient_accumulation_steps,
        allreduce_dtype=None if wire == "float32" else tf.as_dtype(wire),
        shard_optimizer=settings.shard_optimizer,
        epsilon=settings.adam_epsilon,
        weight_decay=settings.weight_decay,
        schedule=settings.lr_schedule,
        scales_loss=settings.precision == "float16",
        **steps._asdict(),
    )


def properties_of(task: Task) -> dict[str, Any]:
    """Returns the properties that training and later use of a model must share, by flag."""
    config = task.config.forward_values()
    if task.num_groups:
        # Several groups may start from the weights of one.
        del config["num_hidden_groups"], config["inner_group_num"]
    if not task.tokenizer:
        return {"albert_config_file": config}
    return used_model(config, tokenizer_file(task.settings), task.tokenizer.normalization)


def tokenizer_file(settings: RunSettings) -> dict[str, str]:
    """Returns the path of the tokenizer, by its flag; empty if none is given."""
    paths = {flag: getattr(settings, flag) for flag in TOKENIZERS}
    return dict([(flag, path) for flag, path in paths.items() if path][:1])


def assets_of(task: Task) -> Assets:
    """Returns the files and values with which the model works without this program's flags."""
    settings = task.settings
    description = {
        "task": task.kind,
        **Normalization.of(vars(settings)).recorded(),
        **{name: getattr(settings, name) for name in ("max_seq_length", *settings.described)},
        **({"labels": list(task.labels)} if task.labels else {}),
        **task.description(),
    }
    config = {CONFIG_FLAGS[0]: settings.albert_config_file}
    return Assets(description, {**config, **tokenizer_file(settings)})
