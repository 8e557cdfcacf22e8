"""A task: its data, its model and its scores, for which a run and `albert check` ask it."""

from __future__ import annotations

import abc
import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Protocol, TypeVar

import tensorflow.compat.v1 as tf

from albert.checkpoints.checkpoint_files import list_checkpoints
from albert.checkpoints.model_folder import (
    TOKENIZERS,
    ModelFolder,
    quantized_encoder,
    recorded_scores,
    refuse_quantized,
)
from albert.core.errors import FlagError
from albert.core.files import content_of
from albert.modeling import EncoderConfig, read_config
from albert.precision import configuration
from albert.precision.configuration import PrecisionConfig
from albert.prediction.engine import choose_engine, precision_list
from albert.prediction.model import Head
from albert.prediction.session import Output
from albert.records import DEV, TEST, TRAIN
from albert.records.batches import Data
from albert.report import PAGE, PREDICTIONS
from albert.settings.engines import AUTO, TENSORFLOW
from albert.settings.run_settings import RunSettings
from albert.settings.text_settings import FileSettings, TextSettings
from albert.tokenization import FullTokenizer
from albert.training.evaluation import CheckpointScores
from albert.training.plan import Steps, steps_with_warmup
from albert.training.recipe import Facts, with_recipe

# Both flags name the configuration, and each accepts ALBERT and BERT.
CONFIG_FLAGS = ("albert_config_file", "bert_config_file")


class Split(Protocol):
    """A split of a task's data, before its features are prepared."""

    def describe(self) -> Iterator[tuple[str, object]]:
        """Yields names and values of input and features; raises a `UserError` for invalid input."""

    def num_examples(self) -> int:
        """Returns the number of training examples, which determines the number of steps."""

    def prepared(self) -> Data:
        """Prepares data and features; raises a `UserError` if the input or a file is not valid."""


AnyTask = TypeVar("AnyTask", bound="Task")


class Task(abc.ABC):
    """A task under the flags.

    A task has the five abstract methods: its input, its features (two), its head and its scores. It
    may change the defaults after them, and the attributes. All else is the same for all tasks.

    Attributes:
      kind: the name of the task in the records of its runs.
      required: flags that must have a value, or tuples of flags of which one must.
      done_by: the flag that asks for each split.
      best_by: the score that decides which checkpoint is best.
      outputs: names of the files that are written with the best checkpoint's scores.
      label_outputs: names of the files with the labels of `TEST`.
      identity: what a prediction must share with the training in addition to `kind`, by name.
      needs_all_states: whether the head reads the last states of all tokens.
      trims: whether batches may be shortened to their longest row.
      against_truncation: the remedy against truncation of long texts; "" if none is truncated.
      dropout: dropout rate of the head in training, unless there is a flag --dropout_prob.
      num_groups: number of layer groups that start from the initial checkpoint's first.
      labels: the labels of the rows of the head, if it has any; `[None]` for a number.
      tokenizer: the tokenizer, if the features are made from text.
      splits: what the flags ask for, in the order `TRAIN`, `DEV`, `TEST`.
    """

    kind: ClassVar[str] = ""
    required: ClassVar[Sequence[str | tuple[str, ...]]] = (CONFIG_FLAGS, "output_dir")
    done_by: ClassVar[Mapping[str, str]]
    done_by = {TRAIN: "do_train", DEV: "do_eval", TEST: "do_predict"}
    best_by: str = ""
    outputs: Sequence[str] = ()
    label_outputs: Sequence[str] = ()
    identity: Mapping[str, Any] = {}
    needs_all_states: ClassVar[bool] = True
    trims: bool = True
    against_truncation: str = ""
    dropout: float = 0.0
    num_groups: int = 0
    labels: Sequence[str | None] = ()
    tokenizer: FullTokenizer | None = None
    settings: RunSettings
    splits: Sequence[str] = ()

    def __init__(self, settings: RunSettings):
        """Checks the flags, model and tokenizer; raises a `UserError` if they do not match."""
        self.settings = settings
        self.splits = _find_splits(type(self), settings)
        self.config = load_config(settings)
        if settings.do_train or settings.export_dir or settings.engine == TENSORFLOW:
            refuse_quantized(_initial_folder(settings))
        rate = getattr(settings, "dropout_prob", self.dropout)
        self.dropout = 0.0 if settings.deterministic_run else rate
        if set(self.splits) - {TRAIN}:
            self.settings = settings.replaced(engine=_engine(self))

    @classmethod
    @abc.abstractmethod
    def input_flags(cls, settings: RunSettings) -> Mapping[str, str]:
        """Returns the flags that name the files or folders of the splits, by split."""

    @abc.abstractmethod
    def split(self, name: str) -> Split:
        """Returns a split of the data, which reads its input and makes its features."""

    @abc.abstractmethod
    def model_inputs(self) -> Mapping[str, Any]:
        """Returns the fields of a training record that the model reads, for `tf.io`'s parser."""

    @abc.abstractmethod
    def head(self) -> Head:
        """Returns the head."""

    @abc.abstractmethod
    def score(self, data: Data, outputs: Sequence[Output]) -> CheckpointScores:
        """Returns the scores of the model's outputs for all records of `DEV`; runs on rank 0.

        There are none if the true answers are unknown. What it writes with them, if the checkpoint
        is the best, shows the predictions.
        """

    # Defaults.

    @classmethod
    def run_several(cls, settings: RunSettings) -> None:
        """Does the runs of `RunSettings.runs` if they are several; raises as `training.run.run`."""
        raise NotImplementedError

    def contents(self, split: str) -> dict[str, Any]:
        """Returns the contents of a split's files, and what else its results depend on, by flag."""
        return {self.input_flags(self.settings)[split]: content_of(self.input_path(split))}

    def steps(self, num_examples: int) -> Steps:
        """Returns the steps of the training; raises a `UserError` for less than one."""
        return steps_with_warmup(self.settings, num_examples, self.input_path(TRAIN))

    def description(self) -> dict[str, Any]:
        """Returns the values that inference needs in addition to flags, as JSON values by name."""
        return {}

    def write_labels(self, data: Data, outputs: Sequence[Output], names: Sequence[str]) -> dict:
        """Writes the labels of all records of `TEST` on rank 0; returns facts to record with them.

        `names` are paths in the order of `label_outputs`; raises a `UserError` for other examples.
        """
        raise NotImplementedError

    # For all tasks.

    def with_settings(self: AnyTask, settings: RunSettings) -> AnyTask:
        """Returns the task with other settings, which must not affect its data or its model."""
        task = copy.copy(self)
        task.settings = settings
        return task

    def input_path(self, split: str) -> str:
        """Returns the file or folder of a split."""
        return getattr(self.settings, self.input_flags(self.settings)[split])


class TextTask(Task):
    """A task whose features are made from text."""

    settings: TextSettings
    tokenizer: FullTokenizer
    required: ClassVar[Sequence[str | tuple[str, ...]]]
    required = CONFIG_FLAGS, tuple(TOKENIZERS), "output_dir"
    outputs: Sequence[str] = (PREDICTIONS, PAGE)
    _has_recipe = False

    def __init__(self, settings: RunSettings):
        super().__init__(settings)
        files = settings if isinstance(settings, FileSettings) else None
        if files and files.dev_fraction and files.predict_file:
            raise FlagError("--dev_fraction replaces --predict_file: pass only one of them")
        buckets, length = settings.length_buckets, settings.max_seq_length
        if buckets and buckets[-1] != length:
            raise FlagError(
                f"--length_buckets must end with --max_seq_length {length}, not with {buckets[-1]}"
            )
        self.tokenizer = FullTokenizer.of(vars(settings), vars(settings))
        self.tokenizer.check_size(self.config.vocab_size, settings.albert_config_file)

    def facts(self) -> Facts:
        """Returns the facts about the training data that --recipe=auto depends on."""
        return Facts(self.split(TRAIN).num_examples())

    def apply_recipe(self) -> None:
        """Replaces settings as --recipe=auto says; for a constructor that needs these settings."""
        if not self._has_recipe:
            own = self.kind, self.settings, self.config, self.splits
            self.settings, self._has_recipe = with_recipe(*own, self.facts), True


def create_task(task_class: type[Task], settings: RunSettings) -> Task:
    """Creates a task with the settings of its recipe; raises a `UserError` as the class does."""
    if isinstance(task := task_class(settings), TextTask):
        task.apply_recipe()
    return task


def requested_inputs(task_class: type[Task], settings: RunSettings) -> dict[str, str]:
    """Returns `Task.input_flags` of the splits whose switches are on."""
    flags, done_by = task_class.input_flags(settings), task_class.done_by
    return {split: flag for split, flag in flags.items() if getattr(settings, done_by[split])}


def _find_splits(task_class: type[Task], settings: RunSettings) -> list[str]:
    """Returns the splits that the flags ask for; raises a `FlagError` for a missing file.

    Without the file of a split, a default is turned off with a log line, and a given switch is an
    error.
    """
    splits, requested = list[str](), requested_inputs(task_class, settings)
    for split, flag in requested.items():
        do = task_class.done_by[split]
        if getattr(settings, flag):
            splits.append(split)
        elif do in settings.given:
            raise FlagError(f"--{do} needs --{flag}")
        else:
            tf.logging.info("--%s is off, because --%s is not given", do, flag)
    if not splits and not settings.export_dir:
        flags = dict.fromkeys(requested.values() or task_class.done_by.values())
        names = ", ".join(f"--{flag}" for flag in flags)
        raise FlagError(f"nothing to do: pass {names} or --export_dir")
    if TRAIN in splits and DEV not in splits and scores_while_training(settings):
        raise FlagError("--evaluate_while_training and --patience need data to score on")
    return splits


def scores_while_training(settings: RunSettings) -> bool:
    """Returns whether each checkpoint is scored as soon as it is written."""
    return bool(settings.evaluate_while_training or settings.patience)


def precision_config(task: Task) -> PrecisionConfig | None:
    """Returns the configuration of --precision and the environment; None for float32."""
    return configuration.chosen(task.settings.precision, precision_list(task.config))


def _engine(task: Task) -> str:
    """Returns the engine of prediction; a run that began with TensorFlow keeps it."""
    settings, engine = task.settings, task.settings.engine
    if engine == AUTO and not settings.overwrite_output_dir:
        begun = recorded_scores(settings.output_dir).get("settings", {})
        engine = TENSORFLOW if begun.get("engine") == TENSORFLOW else AUTO
    return choose_engine(engine, precision_config(task), quantized_start(settings))


def quantized_start(settings: RunSettings) -> str:
    """Returns the path of the encoder in int8 that predicts; or ""."""
    return "" if settings.do_train else quantized_encoder(_initial_folder(settings))


def _initial_folder(settings: RunSettings) -> str:
    """Returns the folder of the initial checkpoint; "" without one, or if the run has its own."""
    start, own = settings.init_checkpoint, list_checkpoints(settings.output_dir)
    return ModelFolder.from_checkpoint(start).path if start and not own else ""


def load_config(settings: RunSettings) -> EncoderConfig:
    """Returns the model's configuration; raises a `UserError` if the flags do not fit it."""
    config = read_config(settings.albert_config_file)
    is_chosen = isinstance(settings, TextSettings) and settings.is_auto() and settings.do_train
    is_chosen = is_chosen and "max_seq_length" not in settings.given
    if not is_chosen and settings.max_seq_length > config.max_position_embeddings:
        raise FlagError(
            f"--max_seq_length {settings.max_seq_length} is more than the "
            f"{config.max_position_embeddings} positions of {settings.albert_config_file}"
        )
    if settings.deterministic_run:
        config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0
    return config


def check_room(settings: RunSettings, name: str, special_tokens: int) -> int:
    """Returns how many tokens another flag and special ones leave; raises a `FlagError` if none."""
    room = settings.max_seq_length - getattr(settings, name) - special_tokens
    if room <= 0:
        raise FlagError(
            f"--max_seq_length {settings.max_seq_length} must be more than --{name} "
            f"{getattr(settings, name)} + {special_tokens}"
        )
    return room
