"""The graph of a task's model: its encoder and head, in the precision and by the engine of the
flags."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import tensorflow.compat.v1 as tf

from albert.checkpoints.checkpoint_files import list_checkpoints
from albert.checkpoints.initialization import Initialization, compare_with_checkpoint
from albert.checkpoints.model_files import model_of_checkpoint
from albert.checkpoints.model_folder import quantized_encoder, recorded_scores
from albert.devices import device
from albert.modeling import EncoderConfig
from albert.precision import configuration, conversion
from albert.precision.configuration import PrecisionConfig
from albert.prediction.engine import choose_engine, precision_list
from albert.prediction.model import ModelOptions
from albert.prediction.session import AT_ONCE
from albert.records import TRAIN
from albert.records.batches import batch_spec
from albert.records.sequences import SEQUENCE_KEYS
from albert.settings.engines import AUTO, OPENVINO, TENSORFLOW
from albert.settings.run_settings import RunSettings
from albert.training.model_fn import make_model_fn

if TYPE_CHECKING:
    from albert.training.task import Task


class TaskModel(NamedTuple):
    """The model of a task under its flags."""

    task: Task

    def model_fn(
        self,
        steps: tuple[int, int] | None,
        engine: str = TENSORFLOW,
        precision: str = "float32",
        quantized: str = "",
    ) -> Callable:
        """Returns the `model_fn`.

        Args:
          steps: the numbers of training and warm-up steps; None for prediction.
          engine: what computes the encoder in prediction, a value of --engine.
          precision, quantized: see `ModelOptions`.
        """
        task, settings = self.task, self.task.settings
        options = ModelOptions(
            task.optimizer_options(*steps) if steps else None,
            settings.init_checkpoint,
            task.num_groups(),
            new_head=settings.new_head,
            labels=task.labels,
            use_einsum=settings.use_einsum,
            gradient_checkpointing=settings.gradient_checkpointing,
            remove_padding=task.removes_padding(),
            engine=engine,
            precision=precision,
            quantized=quantized,
            at_once=AT_ONCE,
        )
        return make_model_fn(task.config, task.head(), options)

    def converted_model_fn(self, steps: tuple[int, int] | None) -> Callable:
        """Returns the `model_fn` that computes in the precision of the flags; see `model_fn`."""
        config, settings = self.precision_config(), self.task.settings
        if steps is None and settings.engine == OPENVINO:
            precision = config.dtype.name if config else "float32"
            return self.model_fn(None, OPENVINO, precision, _quantized(settings))
        return conversion.convert(self.model_fn(steps), config, device.kind())

    def precision_config(self) -> PrecisionConfig | None:
        """Returns the configuration of --precision and the environment; None for float32."""
        return _precision_of(self.task.settings, self.task.config)

    def serving_inputs(self) -> dict[str, tf.TensorSpec]:
        """Returns the inputs of an exported model, by name."""
        inputs = batch_spec(self.task.model_inputs(), None, trims=True)
        return {key: inputs[key] for key in SEQUENCE_KEYS}

    def compare(self, shapes: Mapping[str, Sequence[int]]) -> Initialization:
        """Compares variables with --init_checkpoint; raises a `UserError` if they do not match."""
        task, settings = self.task, self.task.settings
        new_head = settings.new_head if TRAIN in task.splits else False
        checkpoint, groups = settings.init_checkpoint, task.num_groups()
        return compare_with_checkpoint(shapes, checkpoint, groups, new_head, task.labels)[0]


def engine_of(settings: RunSettings, config: EncoderConfig) -> str:
    """Returns the engine of prediction; a run that began with TensorFlow keeps it."""
    engine = settings.engine
    if engine == AUTO and not settings.overwrite_output_dir:
        begun = recorded_scores(settings.output_dir).get("settings", {})
        engine = TENSORFLOW if begun.get("engine") == TENSORFLOW else AUTO
    return choose_engine(engine, _precision_of(settings, config), _quantized(settings))


def initial_folder(settings: RunSettings) -> str:
    """Returns the folder of the initial checkpoint; "" without one, or if the run has its own."""
    start, own = settings.init_checkpoint, list_checkpoints(settings.output_dir)
    return model_of_checkpoint(start).folder if start and not own else ""


def _precision_of(settings: RunSettings, config: EncoderConfig) -> PrecisionConfig | None:
    return configuration.chosen(settings.precision, precision_list(config))


def _quantized(settings: RunSettings) -> str:
    """Returns the path of the encoder in int8 that predicts; or ""."""
    return "" if settings.do_train else quantized_encoder(initial_folder(settings))
