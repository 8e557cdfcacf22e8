"""The base classes of tasks on the encoder: configuration, tokenizer, initial values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import tensorflow.compat.v1 as tf

from albert.checkpoints.initialization import Initialization, compare_with_checkpoint
from albert.checkpoints.model_folder import CONFIG, TOKENIZERS, Assets, used_model
from albert.core.errors import ErrorCollector, FlagError, UserError
from albert.core.files import check_readable, content_of
from albert.data import TRAIN
from albert.devices import device
from albert.distributed import collectives
from albert.modeling import BertConfig, EncoderConfig, read_config
from albert.optimization import OptimizerOptions
from albert.precision import configuration
from albert.prediction.model import Head, ModelOptions
from albert.report import PAGE, PREDICTIONS
from albert.report.terminal import samples_at_end
from albert.settings.engines import TENSORFLOW
from albert.settings.run_settings import RunSettings
from albert.settings.text_settings import TextSettings
from albert.tokenization import FullTokenizer
from albert.training.model_fn import make_model_fn
from albert.training.task import Task

# Both flags name the configuration, and each accepts ALBERT and BERT.
CONFIG_FLAGS = ("albert_config_file", "bert_config_file")


class EncoderTask(Task):
    """A task on an encoder; `needs_all_states` if the head reads the last states of all tokens."""

    needs_all_states: ClassVar[bool] = True

    def __init__(self, settings: RunSettings):
        super().__init__(settings)
        self.config = load_config(settings)
        if isinstance(self.config, BertConfig):
            self.precision_list = configuration.SHIPPED_FOR_BERT

    @classmethod
    def inputs(cls, settings: RunSettings) -> Sequence[str]:
        return CONFIG_FLAGS[:1]

    def head(self) -> Head:
        """Returns the head."""
        raise NotImplementedError

    def has_dropout(self) -> bool:
        """Returns whether training uses dropout."""
        rates = self.config.hidden_dropout_prob, self.config.attention_probs_dropout_prob
        return any(rates)

    def contents(self, split: str) -> dict[str, Any]:
        """See `Task.contents`: the configuration, and how dropout masks are drawn."""
        # A resumed run matches an uninterrupted one only if it draws the same dropout masks.
        masks = {}
        if split == TRAIN and self.has_dropout():
            last = (
                "" if self.needs_all_states else ", in the last layer of the tokens that are needed"
            )
            rows = " of real tokens" if self._removes_padding() else ""
            masks = {"dropout masks": f"by place{last}{rows}"}
        return {"albert_config_file": self.config.to_dict(), **masks}

    def model(self) -> dict[str, Any]:
        values = self.config.forward_values()
        if self.num_groups():
            # Several groups may start from the weights of one.
            del values["num_hidden_groups"], values["inner_group_num"]
        return {CONFIG_FLAGS[0]: values}

    def model_fn(self, steps: tuple[int, int] | None, engine: str = TENSORFLOW) -> Callable:
        settings = self.settings
        options = ModelOptions(
            self.optimizer_options(*steps) if steps else None,
            settings.init_checkpoint,
            self.num_groups(),
            use_einsum=settings.use_einsum,
            gradient_checkpointing=settings.gradient_checkpointing,
            remove_padding=self._removes_padding(),
            engine=engine,
        )
        return make_model_fn(self.config, self.head(), options)

    def _removes_padding(self) -> bool:
        """Returns whether the layers skip padding; never on the HPU, which needs fixed shapes."""
        return self.settings.remove_padding and self.trims and not device.is_hpu()

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

    def assets(self) -> Assets:
        """See `Task.assets`: configuration, tokenizer, and the settings that shape all features."""
        settings = self.settings
        files = {CONFIG: settings.albert_config_file}
        for flag, name in TOKENIZERS.items():
            if path := getattr(settings, flag):
                files[name] = path
                break
        description = {
            "task": self.kind,
            "do_lower_case": settings.do_lower_case,
            "max_seq_length": settings.max_seq_length,
        }
        return Assets(description, files)

    def compare(self, variables: Sequence[tf.Variable]) -> Initialization:
        start, _ = compare_with_checkpoint(
            variables, self.settings.init_checkpoint, self.num_groups()
        )
        return start

    def describe(self) -> Iterator[tuple[str, object]]:
        yield "vocabulary", f"{self.config.vocab_size} pieces, as in the configuration"


class TextTask(EncoderTask):
    """A task whose features are made from text."""

    settings: TextSettings
    required: ClassVar[Sequence[str | tuple[str, ...]]]
    required = CONFIG_FLAGS, tuple(TOKENIZERS), "output_dir"
    outputs: Sequence[str] = (PREDICTIONS, PAGE)

    def __init__(self, settings: RunSettings):
        faults = ErrorCollector()
        with faults.collect():
            super().__init__(settings)
        with faults.collect():
            _check_buckets(settings)
        with faults.collect():
            self.tokenizer = load_tokenizer(settings, getattr(self, "config", None))
        faults.raise_all()

    @classmethod
    def inputs(cls, settings: RunSettings) -> Sequence[str]:
        return (*super().inputs(settings), *TOKENIZERS)

    def contents(self, split: str) -> dict[str, Any]:
        name = next(name for name in TOKENIZERS if getattr(self.settings, name))
        return {**super().contents(split), name: content_of(getattr(self.settings, name))}

    def model(self) -> dict[str, Any]:
        settings = self.settings
        files = {name: getattr(settings, name) for name in TOKENIZERS}
        return used_model(super().model()[CONFIG_FLAGS[0]], files, settings.do_lower_case)

    def samples(self) -> Iterator[str]:
        return samples_at_end(self.settings.output_dir)


def load_config(settings: RunSettings) -> EncoderConfig:
    """Returns the model's configuration; raises a `UserError` if the flags do not fit it."""
    config = read_config(settings.albert_config_file)
    if settings.max_seq_length > config.max_position_embeddings:
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


def _check_buckets(settings: RunSettings) -> None:
    """Raises a `FlagError` if other flags conflict with --length_buckets."""
    if not settings.length_buckets:
        return
    longest, length = settings.length_buckets[-1], settings.max_seq_length
    if longest != length:
        raise FlagError(
            f"--length_buckets must end with --max_seq_length {length}, not with {longest}"
        )
    for name in ("trim_batches", "mask_padding_in_loss"):
        # Only SQuAD has these flags.
        if not getattr(settings, name, True):
            raise FlagError(
                f"--length_buckets shortens batches, and --{name}=false keeps their full length; "
                "remove one of them"
            )


def load_tokenizer(settings: RunSettings, config: EncoderConfig | None) -> FullTokenizer:
    """Returns the tokenizer; raises a `UserError` if its files are bad or not the model's."""
    if settings.vocab_file:
        check_readable(settings.vocab_file, "--vocab_file")
    tokenizer = FullTokenizer(settings.vocab_file, settings.do_lower_case, settings.spm_model_file)
    tokenizer.check()
    if config:
        check_vocabulary(settings, tokenizer.size, config)
    return tokenizer


def check_vocabulary(settings: RunSettings, size: int, config: EncoderConfig) -> None:
    """Raises a `UserError` if the size of a vocabulary differs from the configuration's."""
    if size != config.vocab_size:
        raise UserError(
            f"{settings.spm_model_file or settings.vocab_file} has {size} pieces, but "
            f"{settings.albert_config_file} has a vocab_size of {config.vocab_size}: both files "
            "must belong to the same model"
        )
