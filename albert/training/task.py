"""The protocol of a task: its data, model and scores, for the run and `albert check`."""

from __future__ import annotations

import abc
import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Protocol, TypeVar

import tensorflow.compat.v1 as tf

from albert.bf16 import configuration
from albert.checkpoints.initialization import Initialization
from albert.core.errors import FlagError
from albert.data.batches import Data, batch_spec
from albert.data.sequences import SEQUENCE_KEYS
from albert.settings.run_settings import RunSettings
from albert.training.assets import Assets
from albert.training.evaluation import CheckpointScores
from albert.training.prediction import Output

# The parts of a task's data: to train on, to choose the best checkpoint by, to be labelled by it.
TRAIN, DEV, TEST = "train", "dev", "test"


class Split(Protocol):
    """A part of a task's data, before it is ready to be read."""

    def describe(self) -> Iterator[tuple[str, object]]:
        """Yields names and values about the input and its features, for people; writes nothing.

        Raises:
          UserError: the input is no good.
        """

    def num_examples(self) -> int:
        """Returns the number of training examples, from which the number of steps follows."""

    def prepared(self) -> Data:
        """Makes the data ready to be read, features included.

        Raises:
          UserError: the input is no good, or a file is there that is not ours to replace.
        """

    def sample(self, folder: str) -> tuple[Data, float]:
        """Returns data to time a job with, and the seconds in which what lacks would be made.

        The numbers are those of all data; of features that are not there some are made.

        Args:
          folder: that may be written into.
        """


AnyTask = TypeVar("AnyTask", bound="Task")


class Task(abc.ABC):
    """A task under the flags: its data, its model, its scores.

    Attributes:
      kind: the name of the task, as the records of its runs have it.
      required: flags that must have a value, or tuples of which one must.
      outputs: names of the files that come with the best checkpoint's scores.
      label_outputs: names of the files that the labels of `TEST` are written to.
      bf16_list: path of the operations that are in bfloat16 where the environment just says so.
      settings: what it is set by.
    """

    kind: ClassVar[str] = ""
    required: ClassVar[Sequence[str | tuple[str, ...]]] = ()
    outputs: ClassVar[Sequence[str]] = ()
    label_outputs: ClassVar[Sequence[str]] = ()
    bf16_list: str = configuration.SHIPPED
    settings: RunSettings

    def __init__(self, settings: RunSettings):
        """Checks the flags against each other, the model and its tokenizer.

        Raises:
          UserError: something does not fit.
        """
        self.settings = settings

    def with_settings(self: AnyTask, settings: RunSettings) -> AnyTask:
        """Returns the task under other settings, which must not concern its data or its model."""
        task = copy.copy(self)
        task.settings = settings
        return task

    @classmethod
    def inputs(cls, settings: RunSettings) -> Sequence[str]:
        """Returns the flags whose files or folders, where any are given, have to be there."""
        return ()

    @abc.abstractmethod
    def requested_splits(self) -> Sequence[str]:
        """Returns the parts that the flags ask for, in the order `TRAIN`, `DEV`, `TEST`.

        Raises:
          FlagError: there is nothing to do, or a file is missing for what was asked for.
        """

    @abc.abstractmethod
    def split(self, name: str) -> Split:
        """Returns a part of the data."""

    @abc.abstractmethod
    def contents(self, part: str) -> dict[str, Any]:
        """Returns the inputs that a part's results depend on, other than plain values of flags.

        Under the names of their flags: the contents of files, and what flags come to.
        """

    def model(self) -> dict[str, Any]:
        """Returns the properties of a model that every use must share with its training.

        Under the names of their flags: what the forward pass depends on besides the weights.
        """
        return {}

    def identity(self) -> dict[str, Any]:
        """Returns further properties, by name, that a prediction must share: the task."""
        return {"task": self.kind}

    def describe(self) -> Iterator[tuple[str, object]]:
        """Yields names and values about the model, for people."""
        return iter(())

    @abc.abstractmethod
    def steps(self, num_examples: int) -> tuple[int, int]:
        """Returns the steps of the training, and those in which the learning rate rises.

        Raises:
          UserError: there is less than one.
        """

    @abc.abstractmethod
    def model_fn(self, steps: tuple[int, int] | None) -> Callable:
        """Returns the `model_fn`; `steps` are those of training and warmup, None in prediction."""

    def bf16_config(self) -> configuration.Bf16Config | None:
        """Returns the bfloat16 configuration from the environment; None for float32."""
        return configuration.from_environment(self.bf16_list)

    @abc.abstractmethod
    def model_inputs(self) -> Mapping[str, Any]:
        """Returns the fields of a training record that the model reads, for `tf.io`'s parser."""

    trims: bool = True

    def serving_inputs(self) -> dict[str, tf.TensorSpec]:
        """Returns the inputs of an exported model, by name."""
        inputs = batch_spec(self.model_inputs(), None, trims=True)
        return {key: inputs[key] for key in SEQUENCE_KEYS}

    def assets(self) -> Assets:
        """Returns the files and values that make its model usable without this program's flags."""
        return Assets({}, {})

    @abc.abstractmethod
    def compare(self, variables: Sequence[tf.Variable]) -> Initialization:
        """Compares the model's variables with those of --init_checkpoint.

        Raises:
          UserError: they do not fit.
        """

    @abc.abstractmethod
    def score_key(self, data: Data) -> str | None:
        """Returns the score by which the best checkpoint is chosen; None if there are no scores."""

    @abc.abstractmethod
    def score(self, data: Data, outputs: list[Output]) -> CheckpointScores:
        """Returns the scores of what the model gave for every record of `DEV`; on rank 0."""

    def samples(self) -> Iterator[str]:
        """Yields what a run shows of the best checkpoint's predictions at its end, by line."""
        return iter(())

    def write_labels(self, data: Data, outputs: list[Output], names: Sequence[str]) -> dict:
        """Writes what the model gave for every record of `TEST`; on rank 0.

        Args:
          data: the part.
          outputs: of the model.
          names: what to write, in the order of `label_outputs`.

        Returns:
          Facts about the files that are kept with them.

        Raises:
          UserError: the features are not those of the examples.
        """
        raise NotImplementedError


def is_wanted(settings: RunSettings, task: str, file: str) -> bool:
    """Returns whether a task such as "do_train" is to be done: it is on, and its file is given.

    A task that is on by default is off, with a log line, if its file is not given.

    Raises:
      FlagError: the task was asked for without its file.
    """
    if not getattr(settings, task):
        return False
    if getattr(settings, file):
        return True
    if task in settings.given:
        raise FlagError(f"--{task} needs --{file}")
    tf.logging.info("--%s is off, because --%s is not given", task, file)
    return False
