"""The interface of a task to the run and to `albert check`: data, model and scores."""

from __future__ import annotations

import abc
import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Protocol, TypeVar

import tensorflow.compat.v1 as tf

from albert.checkpoints.initialization import Initialization
from albert.checkpoints.model_folder import Assets
from albert.core.errors import FlagError
from albert.data.batches import Data, batch_spec
from albert.data.sequences import SEQUENCE_KEYS
from albert.devices import device
from albert.precision import configuration, conversion
from albert.prediction.session import Output
from albert.settings.engines import TENSORFLOW
from albert.settings.run_settings import RunSettings
from albert.training.evaluation import CheckpointScores


class Split(Protocol):
    """A split of a task's data, before its features are prepared."""

    def describe(self) -> Iterator[tuple[str, object]]:
        """Yields names and values of input and features; raises a `UserError` for invalid input."""

    def num_examples(self) -> int:
        """Returns the number of training examples, which determines the number of steps."""

    def prepared(self) -> Data:
        """Prepares data and features; raises a `UserError` if the input or a file is not valid."""

    def sample(self, folder: str) -> tuple[Data, float]:
        """Returns data for timing a job, and the estimated seconds to make missing features.

        The data has the counts of the whole split. If features are missing, makes a sample of them
        in `folder`.
        """


AnyTask = TypeVar("AnyTask", bound="Task")


class Task(abc.ABC):
    """A task under the flags: its data, its model, its scores.

    Attributes:
      kind: the name of the task in the records of its runs.
      required: flags that must have a value, or tuples of flags of which one must.
      outputs: names of the files that are written with the best checkpoint's scores.
      label_outputs: names of the files with the labels of `TEST`.
      precision_list: path of the model's list of operations in low precision.
    """

    kind: ClassVar[str] = ""
    required: ClassVar[Sequence[str | tuple[str, ...]]] = ()
    outputs: Sequence[str] = ()
    label_outputs: ClassVar[Sequence[str]] = ()
    precision_list: str = configuration.SHIPPED
    settings: RunSettings

    def __init__(self, settings: RunSettings):
        """Checks the flags, model and tokenizer; raises a `UserError` if they do not match."""
        self.settings = settings

    def with_settings(self: AnyTask, settings: RunSettings) -> AnyTask:
        """Returns the task with other settings, which must not affect its data or its model."""
        task = copy.copy(self)
        task.settings = settings
        return task

    @classmethod
    def inputs(cls, settings: RunSettings) -> Sequence[str]:
        """Returns the flags whose files or folders must exist if they are given."""
        return ()

    @classmethod
    def downloads(cls, settings: RunSettings) -> dict[str, Sequence[str]]:
        """Returns the words of `albert download` for missing data of known name, by description."""
        return {}

    @abc.abstractmethod
    def requested_splits(self) -> Sequence[str]:
        """Returns the splits that the flags ask for, in the order `TRAIN`, `DEV`, `TEST`.

        Raises:
          FlagError: there is nothing to do, or the file of a requested split is not given.
        """

    @abc.abstractmethod
    def split(self, name: str) -> Split:
        """Returns a split of the data."""

    @abc.abstractmethod
    def contents(self, split: str) -> dict[str, Any]:
        """Returns contents of files, and derived values, that a split's results depend on."""

    def in_buckets(self, data: Data) -> Data:
        """Returns data with the lengths of --length_buckets."""
        return data._replace(buckets=self.settings.length_buckets or ())

    def files_of_results(self) -> list[str]:
        """Returns the names of the files that a run writes into its folder for this task."""
        labels = self.label_outputs
        return [*self.outputs, *labels, *(f"{name}.json" for name in labels[:1])]

    def model(self) -> dict[str, Any]:
        """Returns the properties that training and later use of a model must share, by flag."""
        return {}

    def identity(self) -> dict[str, Any]:
        """Returns further properties, by name, that a prediction must share with the training."""
        return {"task": self.kind}

    def describe(self) -> Iterator[tuple[str, object]]:
        """Yields human-readable names and values about the model."""
        return iter(())

    @abc.abstractmethod
    def steps(self, num_examples: int) -> tuple[int, int]:
        """Returns the numbers of training and warm-up steps; a `UserError` for less than one."""

    @abc.abstractmethod
    def model_fn(self, steps: tuple[int, int] | None, engine: str = TENSORFLOW) -> Callable:
        """Returns the `model_fn`.

        Args:
          steps: the numbers of training and warm-up steps; None for prediction.
          engine: what computes the encoder in prediction, a value of --engine.
        """

    def converted_model_fn(self, steps: tuple[int, int] | None) -> Callable:
        """Returns the `model_fn` that computes in the precision of the flags; see `model_fn`."""
        model_fn, config = self.model_fn(steps, self.settings.engine), self.precision_config()
        # On the HPU the bridge reads the configuration and converts the graph itself.
        if config and not device.is_hpu():
            model_fn = conversion.convert(model_fn, config, device.kind())
        return model_fn

    def precision_config(self) -> configuration.PrecisionConfig | None:
        """Returns the configuration of --precision and the environment; None for float32."""
        return configuration.chosen(self.settings.precision, self.precision_list)

    @abc.abstractmethod
    def model_inputs(self) -> Mapping[str, Any]:
        """Returns the fields of a training record that the model reads, for `tf.io`'s parser."""

    trims: bool = True

    def serving_inputs(self) -> dict[str, tf.TensorSpec]:
        """Returns the inputs of an exported model, by name."""
        inputs = batch_spec(self.model_inputs(), None, trims=True)
        return {key: inputs[key] for key in SEQUENCE_KEYS}

    def assets(self) -> Assets:
        """Returns the files and values with which the model works without this program's flags."""
        return Assets({}, {})

    @abc.abstractmethod
    def compare(self, variables: Sequence[tf.Variable]) -> Initialization:
        """Compares variables with --init_checkpoint; raises a `UserError` if they do not match."""

    @abc.abstractmethod
    def score_key(self, data: Data) -> str | None:
        """Returns the score that decides which checkpoint is best; None if there are no scores."""

    @abc.abstractmethod
    def score(self, data: Data, outputs: Sequence[Output]) -> CheckpointScores:
        """Returns the scores of the model's outputs for all records of `DEV`; runs on rank 0."""

    def samples(self) -> Iterator[str]:
        """Yields lines with samples of the best checkpoint's predictions, for the end of a run."""
        return iter(())

    def write_labels(self, data: Data, outputs: Sequence[Output], names: Sequence[str]) -> dict:
        """Writes the labels of all records of `TEST` on rank 0; returns facts to record with them.

        `names` are paths in the order of `label_outputs`; raises a `UserError` for other examples.
        """
        raise NotImplementedError


def is_wanted(settings: RunSettings, task: str, file: str) -> bool:
    """Returns whether a switch such as "do_train" is on and its file is given.

    Without the file, a default is turned off with a log line, and a given switch is a `FlagError`.
    """
    if not getattr(settings, task):
        return False
    if getattr(settings, file):
        return True
    if task in settings.given:
        raise FlagError(f"--{task} needs --{file}")
    tf.logging.info("--%s is off, because --%s is not given", task, file)
    return False
