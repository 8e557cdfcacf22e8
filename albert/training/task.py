"""A task: its data, its model and its scores, for which a run and `albert check` ask it."""

from __future__ import annotations

import abc
import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Protocol, TypeVar

import tensorflow.compat.v1 as tf

from albert.checkpoints.model_folder import (
    TOKENIZERS,
    Assets,
    refuse_quantized,
    used_model,
)
from albert.core.errors import ErrorCollector, FlagError
from albert.core.files import content_of
from albert.devices import device
from albert.distributed import collectives
from albert.modeling import EncoderConfig, read_config
from albert.optimization import OptimizerOptions
from albert.prediction.model import Head
from albert.prediction.session import Output
from albert.records import DEV, TEST, TRAIN
from albert.records.batches import Data
from albert.records.records import share_of_token
from albert.report import PAGE, PREDICTIONS
from albert.settings.engines import TENSORFLOW
from albert.settings.run_settings import RunSettings
from albert.settings.text_settings import FileSettings, TextSettings
from albert.tokenization import FullTokenizer
from albert.tokenizers.normalization import Normalization
from albert.training.evaluation import CheckpointScores
from albert.training.plan import steps_with_warmup
from albert.training.recipe import Facts, with_recipe
from albert.training.task_model import TaskModel, initial_folder

# Both flags name the configuration, and each accepts ALBERT and BERT.
CONFIG_FLAGS = ("albert_config_file", "bert_config_file")
# With a larger share of unknown tokens there is a warning.
_MANY_UNKNOWN = 0.02


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
    """A task under the flags.

    A task has the five abstract methods: its input, its features (two), its head and its scores. It
    may change the defaults after them. The rest is the same for all tasks.

    Attributes:
      kind: the name of the task in the records of its runs.
      required: flags that must have a value, or tuples of flags of which one must.
      done_by: the flag that asks for each split.
      best_by: the score that decides which checkpoint is best.
      outputs: names of the files that are written with the best checkpoint's scores.
      label_outputs: names of the files with the labels of `TEST`.
      needs_all_states: whether the head reads the last states of all tokens.
      trims: whether batches may be shortened to their longest row.
      dropout: dropout rate of the head in training.
      labels: the labels of the rows of the head, if it has any.
      splits: what the flags ask for, in the order `TRAIN`, `DEV`, `TEST`.
    """

    kind: ClassVar[str] = ""
    required: ClassVar[Sequence[str | tuple[str, ...]]] = (CONFIG_FLAGS, "output_dir")
    done_by: ClassVar[Mapping[str, str]]
    done_by = {TRAIN: "do_train", DEV: "do_eval", TEST: "do_predict"}
    best_by: str = ""
    outputs: Sequence[str] = ()
    label_outputs: Sequence[str] = ()
    needs_all_states: ClassVar[bool] = True
    trims: bool = True
    dropout: float = 0.0
    labels: Sequence[str | None] = ()
    settings: RunSettings
    splits: Sequence[str] = ()

    def __init__(self, settings: RunSettings):
        """Checks the flags, model and tokenizer; raises a `UserError` if they do not match."""
        self.settings, faults = settings, ErrorCollector()
        with faults.collect():
            self.splits = self.find_splits()
        with faults.collect():
            self.config = load_config(settings)
        with faults.collect():
            if settings.do_train or settings.export_dir or settings.engine == TENSORFLOW:
                refuse_quantized(initial_folder(settings))
        faults.raise_all()
        if set(self.splits) - {TRAIN}:
            self.settings = settings.replaced(engine=TaskModel(self).engine())

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

    @classmethod
    def file_flags(cls, settings: RunSettings) -> Sequence[str]:
        """Returns the flags whose files or folders must exist if they are given."""
        return CONFIG_FLAGS[:1]

    @classmethod
    def downloads(cls, settings: RunSettings) -> dict[str, Sequence[str]]:
        """Returns the words of `albert download` for missing data of known name, by description."""
        return {}

    def find_splits(self) -> list[str]:
        """Returns the splits that the flags ask for; raises a `FlagError` for a missing file.

        Without the file of a split, a default is turned off with a log line, and a given switch is
        an error.
        """
        settings, splits = self.settings, list[str]()
        flags = self.input_flags(settings)
        for split, flag in flags.items():
            do = self.done_by[split]
            if not getattr(settings, do):
                continue
            if getattr(settings, flag):
                splits.append(split)
            elif do in settings.given:
                raise FlagError(f"--{do} needs --{flag}")
            else:
                tf.logging.info("--%s is off, because --%s is not given", do, flag)
        if not splits and not settings.export_dir:
            names = ", ".join(f"--{flag}" for flag in dict.fromkeys(flags.values()))
            raise FlagError(f"nothing to do: pass {names} or --export_dir")
        if TRAIN in splits and DEV not in splits and scores_while_training(settings):
            raise FlagError("--evaluate_while_training and --patience need data to score on")
        return splits

    def input_contents(self, split: str) -> dict[str, Any]:
        """Returns the contents of a split's files, by flag."""
        return {self.input_flags(self.settings)[split]: content_of(self.input_path(split))}

    def identity(self) -> dict[str, Any]:
        """Returns further properties, by name, that a prediction must share with the training."""
        return {"task": self.kind}

    def describe(self) -> Iterator[tuple[str, object]]:
        """Yields human-readable names and values about the model."""
        yield "vocabulary", f"{self.config.vocab_size} pieces"

    def steps(self, num_examples: int) -> tuple[int, int]:
        """Returns the numbers of training and warm-up steps; a `UserError` for less than one."""
        return steps_with_warmup(self.settings, num_examples, self.input_path(TRAIN))

    def optimizer_options(self, num_steps: int, num_warmup_steps: int) -> OptimizerOptions:
        """Returns the optimizer's options under the flags."""
        settings, wire = self.settings, self.settings.allreduce_dtype
        workers = collectives.size() if settings.scale_learning_rate else 1
        return OptimizerOptions(
            learning_rate=settings.learning_rate * workers,
            num_train_steps=num_steps,
            num_warmup_steps=num_warmup_steps,
            optimizer=settings.optimizer,
            gradient_accumulation_steps=settings.gradient_accumulation_steps,
            allreduce_dtype=None if wire == "float32" else tf.as_dtype(wire),
            shard_optimizer=settings.shard_optimizer,
            epsilon=settings.adam_epsilon,
            weight_decay=settings.weight_decay,
            schedule=settings.lr_schedule,
            scales_loss=settings.precision == "float16",
        )

    def num_groups(self) -> int:
        """Returns the number of layer groups that start from the initial checkpoint's first."""
        return 0

    def description(self) -> dict[str, Any]:
        """Returns the values with which the model works, as JSON values by name."""
        names = "max_seq_length", *self.settings.described
        values = {name: getattr(self.settings, name) for name in names}
        return {"task": self.kind, **Normalization.of(vars(self.settings)).recorded(), **values}

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

    def contents(self, split: str) -> dict[str, Any]:
        """Returns contents of files, and derived values, that a split's results depend on."""
        # A resumed run matches an uninterrupted one only if it draws the same dropout masks.
        masks = {}
        if split == TRAIN and self.has_dropout():
            last = (
                "" if self.needs_all_states else ", in the last layer of the tokens that are needed"
            )
            rows = " of real tokens" if self.removes_padding() else ""
            masks = {"dropout masks": f"by place{last}{rows}"}
        inputs = self.input_contents(split)
        return {"albert_config_file": self.config.to_dict(), **masks, **inputs}

    def has_dropout(self) -> bool:
        """Returns whether training uses dropout."""
        config = self.config
        return any((self.dropout, config.hidden_dropout_prob, config.attention_probs_dropout_prob))

    def prepared(self, split: str) -> Data:
        """Returns a split's data with its features made; raises a `UserError` for invalid input."""
        return in_buckets(self.split(split).prepared(), self.settings)

    def model(self) -> dict[str, Any]:
        """Returns the properties that training and later use of a model must share, by flag."""
        values = self.config.forward_values()
        if self.num_groups():
            # Several groups may start from the weights of one.
            del values["num_hidden_groups"], values["inner_group_num"]
        return {CONFIG_FLAGS[0]: values}

    def removes_padding(self) -> bool:
        """Returns whether the layers skip padding; never on the HPU, which needs fixed shapes."""
        return self.settings.remove_padding and self.trims and not device.is_hpu()

    def assets(self) -> Assets:
        """Returns the files and values with which the model works without this program's flags."""
        paths = {flag: getattr(self.settings, flag) for flag in TOKENIZERS}
        tokenizer = [(flag, path) for flag, path in paths.items() if path][:1]
        config = {CONFIG_FLAGS[0]: self.settings.albert_config_file}
        return Assets(self.description(), {**config, **dict(tokenizer)})


class TextTask(Task):
    """A task whose features are made from text."""

    settings: TextSettings
    required: ClassVar[Sequence[str | tuple[str, ...]]]
    required = CONFIG_FLAGS, tuple(TOKENIZERS), "output_dir"
    outputs: Sequence[str] = (PREDICTIONS, PAGE)

    def __init__(self, settings: RunSettings):
        faults = ErrorCollector()
        with faults.collect():
            super().__init__(settings)
        buckets, length = settings.length_buckets, settings.max_seq_length
        with faults.collect():
            if buckets and buckets[-1] != length:
                raise FlagError(
                    f"--length_buckets must end with --max_seq_length {length}, not with "
                    f"{buckets[-1]}"
                )
        with faults.collect():
            self.tokenizer = FullTokenizer.of(vars(settings), vars(settings))
            if config := getattr(self, "config", None):
                self.tokenizer.check_size(config.vocab_size, settings.albert_config_file)
        faults.raise_all()

    def find_splits(self) -> list[str]:
        settings = self.settings
        if isinstance(settings, FileSettings) and settings.dev_fraction and settings.predict_file:
            raise FlagError("--dev_fraction replaces --predict_file: pass only one of them")
        return super().find_splits()

    @classmethod
    def file_flags(cls, settings: RunSettings) -> Sequence[str]:
        flags = cls.input_flags(settings).items()
        done = dict.fromkeys(f for split, f in flags if getattr(settings, cls.done_by[split]))
        return (*super().file_flags(settings), *TOKENIZERS, *done)

    def facts(self) -> Facts:
        """Returns the facts about the training data that --recipe=auto depends on."""
        return Facts(self.split(TRAIN).num_examples())

    def apply_recipe(self) -> None:
        """Replaces the settings that --recipe=auto chooses, once the data can be read."""
        self.settings = with_recipe(self.kind, self.settings, self.config, self.splits, self.facts)

    def contents(self, split: str) -> dict[str, Any]:
        name = next(name for name in TOKENIZERS if getattr(self.settings, name))
        return {**super().contents(split), name: content_of(getattr(self.settings, name))}

    def model(self) -> dict[str, Any]:
        settings = self.settings
        files = {name: getattr(settings, name) for name in TOKENIZERS}
        return used_model(super().model()[CONFIG_FLAGS[0]], files, self.tokenizer.normalization)

    def prepared(self, split: str) -> Data:
        data = super().prepared(split)
        if collectives.is_chief():
            share = share_of_token(data.files, self.tokenizer.unk_id)
            unknown = f"{split}: {share:.1%} of the tokens are unknown"
            if share <= _MANY_UNKNOWN:
                tf.logging.info("%s", unknown)
            else:
                tf.logging.warning(
                    "%s, so the tokenizer does not fit the text; are the model and "
                    "--do_lower_case, --strip_accents or --keep_accents right?",
                    unknown,
                )
        return data

    def describe(self) -> Iterator[tuple[str, object]]:
        yield "vocabulary", f"{self.config.vocab_size} pieces, as in the configuration"


def in_buckets(data: Data, settings: RunSettings) -> Data:
    """Returns data with the lengths of --length_buckets."""
    return data._replace(buckets=settings.length_buckets or ())


def scores_while_training(settings: RunSettings) -> bool:
    """Returns whether each checkpoint is scored as soon as it is written."""
    return bool(settings.evaluate_while_training or settings.patience)


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
