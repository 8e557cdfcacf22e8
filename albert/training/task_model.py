"""The graph of a task's model: its encoder and head, in the precision and by the engine of the
flags."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from albert.checkpoints.checkpoint_files import list_checkpoints
from albert.checkpoints.initialization import Initialization, compare_with_checkpoint
from albert.checkpoints.model_folder import ModelFolder, quantized_encoder, recorded_scores
from albert.devices import device
from albert.precision import configuration, conversion
from albert.precision.configuration import PrecisionConfig
from albert.prediction.engine import choose_engine, precision_list
from albert.prediction.model import ModelOptions
from albert.prediction.session import AT_ONCE
from albert.records import TRAIN
from albert.settings.engines import AUTO, OPENVINO, TENSORFLOW
from albert.settings.run_settings import RunSettings
from albert.training.model_fn import make_model_fn

if TYPE_CHECKING:
    from albert.training.task import Task


class TaskModel(NamedTuple):
    """The model of a task under its flags."""

    task: Task

    def model_fn(self, steps: tuple[int, int] | None, **engine: Any) -> Callable:
        """Returns the `model_fn`.

        Args:
          steps: the numbers of training and warm-up steps; None for prediction.
          engine: what else than TensorFlow computes the encoder in prediction: `engine`,
            `precision` and `quantized` of `ModelOptions`.
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
            at_once=AT_ONCE,
            **engine,
        )
        return make_model_fn(task.config, task.head(), options)

    def converted_model_fn(self, steps: tuple[int, int] | None) -> Callable:
        """Returns the `model_fn` that computes in the precision of the flags; see `model_fn`."""
        config, settings = self.precision_config(), self.task.settings
        if steps is None and settings.engine == OPENVINO:
            precision = config.dtype.name if config else "float32"
            options = {"precision": precision, "quantized": self._quantized()}
            return self.model_fn(None, engine=OPENVINO, **options)
        return conversion.convert(self.model_fn(steps), config, device.kind())

    def precision_config(self) -> PrecisionConfig | None:
        """Returns the configuration of --precision and the environment; None for float32."""
        task = self.task
        return configuration.chosen(task.settings.precision, precision_list(task.config))

    def engine(self) -> str:
        """Returns the engine of prediction; a run that began with TensorFlow keeps it."""
        settings, engine = self.task.settings, self.task.settings.engine
        if engine == AUTO and not settings.overwrite_output_dir:
            begun = recorded_scores(settings.output_dir).get("settings", {})
            engine = TENSORFLOW if begun.get("engine") == TENSORFLOW else AUTO
        return choose_engine(engine, self.precision_config(), self._quantized())

    def _quantized(self) -> str:
        """Returns the path of the encoder in int8 that predicts; or ""."""
        settings = self.task.settings
        return "" if settings.do_train else quantized_encoder(initial_folder(settings))

    def compare(self, shapes: Mapping[str, Sequence[int]]) -> Initialization:
        """Compares variables with --init_checkpoint; raises a `UserError` if they do not match."""
        task, settings = self.task, self.task.settings
        new_head = settings.new_head if TRAIN in task.splits else False
        checkpoint, groups = settings.init_checkpoint, task.num_groups()
        return compare_with_checkpoint(shapes, checkpoint, groups, new_head, task.labels)


def initial_folder(settings: RunSettings) -> str:
    """Returns the folder of the initial checkpoint; "" without one, or if the run has its own."""
    start, own = settings.init_checkpoint, list_checkpoints(settings.output_dir)
    return ModelFolder.from_checkpoint(start).path if start and not own else ""
