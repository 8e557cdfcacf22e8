"""What all tasks on the encoder have in common: flags of the model, `model_fn`, initial values."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import tensorflow.compat.v1 as tf

from albert.bf16 import configuration
from albert.checkpoints.initialization import (
    Initialized,
    compare_with_checkpoint,
    initialize_from_checkpoint,
)
from albert.core import estimators
from albert.core.errors import Faults, FlagError, UserError
from albert.core.files import check_readable, content_of
from albert.devices import device
from albert.distributed import collectives
from albert.modeling import BertConfig, Encoder, EncoderConfig, read_config
from albert.optimization import OptimizerOptions, build_train_step
from albert.report import PAGE
from albert.report.terminal import samples_at_end
from albert.settings.fields import TOO_LARGE
from albert.settings.run_settings import RunSettings
from albert.settings.text_settings import TextSettings
from albert.tokenization import FullTokenizer
from albert.training.assets import CONFIG, SPM_MODEL, VOCABULARY, Assets
from albert.training.recorded_model import used_model
from albert.training.run import global_batch_size
from albert.training.task import TRAIN, Task

# From `input_ids`, `input_mask` and `segment_ids`, int32 [B, S], by name, and the `positions` of
# the last layer that are wanted, see `modeling.Encoder`, to an encoder.
Encode = Callable[..., Encoder]

# Either names the configuration, of either model.
CONFIG_FLAGS = ("albert_config_file", "bert_config_file")
# The first that is given says how text is cut into tokens.
TOKENIZER_FLAGS = ("spm_model_file", "vocab_file")


class HeadOutput(NamedTuple):
    """What a head makes of the encoder's output.

    Attributes:
      loss: scalar, in training; else None.
      predictions: tensors with B rows, by name.
      exported: what an exported model gives instead; None for the same.
    """

    loss: tf.Tensor | None
    predictions: dict[str, tf.Tensor]
    exported: dict[str, tf.Tensor] | None = None


# From encoder, features and whether this is training to the output.
Head = Callable[[Encode, Mapping[str, tf.Tensor], bool], HeadOutput]


class ModelOptions(NamedTuple):
    """How a model is built, besides its configuration and its head.

    Attributes:
      optimizer: how it is trained; None where it is not.
      init_checkpoint: that variables start from, or None.
      num_groups: groups of layers that start from the checkpoint's first; 0: from their own.
      use_one_hot_embeddings, use_einsum: see `modeling.Encoder`.
      gradient_checkpointing: likewise; in training.
      remove_padding: likewise, of batches that are cut when they are read. Where all have one
        length, a device may need to know every shape.
    """

    optimizer: OptimizerOptions | None = None
    init_checkpoint: str | None = None
    num_groups: int = 0
    use_one_hot_embeddings: bool = False
    use_einsum: bool = False
    gradient_checkpointing: bool = False
    remove_padding: bool = False


def make_model_fn(config: EncoderConfig, head: Head, options: ModelOptions) -> Callable:
    """Returns the `model_fn` of an `Estimator`: encoder, head and, in training, optimizer.

    In training its specification carries a `TrainStep`, see `estimators.carried`.
    """

    def model_fn(features, labels, mode, params):
        del labels, params
        is_training = mode == estimators.ModeKeys.TRAIN
        if not is_training and mode != estimators.ModeKeys.PREDICT:
            raise ValueError(f"Only TRAIN and PREDICT modes are supported: {mode}")

        def encode(
            sequences: Mapping[str, tf.Tensor], positions: tf.Tensor | None = None
        ) -> Encoder:
            inputs = sequences["input_ids"], sequences["input_mask"], sequences["segment_ids"]
            return Encoder(
                config,
                is_training,
                *inputs,
                options.use_one_hot_embeddings,
                options.use_einsum,
                gradient_checkpointing=options.gradient_checkpointing and is_training,
                remove_padding=options.remove_padding and inputs[0].shape[1] is None,
                positions=positions,
            )

        scope = tf.get_variable_scope()
        with tf.variable_scope(scope, custom_getter=_seed_by_name, auxiliary_name_scope=False):
            output = head(encode, features, is_training)
        if not is_training:
            exported = output.predictions if output.exported is None else output.exported
            return estimators.EstimatorSpec(
                mode,
                predictions=output.predictions,
                export_outputs={_DEFAULT: estimators.PredictOutput(exported)},
            )
        if checkpoint := options.init_checkpoint:
            variables = tf.trainable_variables()
            initialize_from_checkpoint(variables, checkpoint, options.num_groups).log()
        assert options.optimizer is not None, "a model to train has one"
        num_tokens = tf.reduce_sum(features["input_mask"])
        step = build_train_step(output.loss, options.optimizer, num_tokens=num_tokens)
        carrier = estimators.Carrier(step)
        return estimators.EstimatorSpec(
            mode, loss=output.loss, train_op=step.op, training_hooks=[carrier]
        )

    return model_fn


def _seed_by_name(getter: Callable, name: str, *args: Any, **options: Any) -> tf.Variable:
    """Gets a variable whose initial value is a function of the graph's seed and its name.

    TensorFlow would take the number of operations before it instead, so that an option that
    computes the same in another way would change the initial weights.
    """
    initializer = options.get("initializer")
    is_seeded = tf.get_default_graph().seed is not None
    if is_seeded and isinstance(initializer, tf.truncated_normal_initializer):
        initializer.seed = zlib.crc32(name.encode()) % TOO_LARGE
    return getter(name, *args, **options)


_DEFAULT = tf.saved_model.signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY


class EncoderTask(Task):
    """A task whose model is a head on the encoder.

    Attributes:
      config: the encoder's sizes.
      needs_all_states: whether the head takes the last states of all tokens.
    """

    needs_all_states: ClassVar[bool] = True

    def __init__(self, settings: RunSettings):
        super().__init__(settings)
        self.config = load_config(settings)
        if isinstance(self.config, BertConfig):
            self.bf16_list = configuration.SHIPPED_FOR_BERT

    @classmethod
    def inputs(cls, settings: RunSettings) -> Sequence[str]:
        return CONFIG_FLAGS[:1]

    def head(self) -> Head:
        """Returns the head."""
        raise NotImplementedError

    def has_dropout(self) -> bool:
        """Returns whether masks of dropout are drawn in training."""
        rates = self.config.hidden_dropout_prob, self.config.attention_probs_dropout_prob
        return any(rates)

    def contents(self, part: str) -> dict[str, Any]:
        """See `Task.contents`: the configuration, the tokenizer, and the rule of dropout."""
        # With other masks a run that was begun before would not end as one that was not stopped.
        masks = {}
        if part == TRAIN and self.has_dropout():
            last = (
                "" if self.needs_all_states else ", in the last layer of the tokens that are needed"
            )
            rows = " of real tokens" if self._removes_padding() else ""
            masks = {"dropout masks": f"by place{last}{rows}"}
        return {"albert_config_file": self.config.to_dict(), **masks}

    def model(self) -> dict[str, Any]:
        values = self.config.forward_values()
        if self.num_groups():
            # Several start from the weights of one.
            del values["num_hidden_groups"], values["inner_group_num"]
        return {CONFIG_FLAGS[0]: values}

    def model_fn(self, steps: tuple[int, int] | None) -> Callable:
        settings = self.settings
        options = ModelOptions(
            self.optimizer_options(*steps) if steps else None,
            settings.init_checkpoint,
            self.num_groups(),
            use_einsum=settings.use_einsum,
            gradient_checkpointing=settings.gradient_checkpointing,
            remove_padding=self._removes_padding(),
        )
        return make_model_fn(self.config, self.head(), options)

    def _removes_padding(self) -> bool:
        """Returns whether the layers see real tokens alone; never on the HPU, whose batches have
        one shape."""
        return self.settings.remove_padding and self.trims and not device.is_hpu()

    def optimizer_options(self, num_steps: int, num_warmup_steps: int) -> OptimizerOptions:
        """Returns how the model is trained under the flags."""
        settings, wire = self.settings, self.settings.allreduce_dtype
        return OptimizerOptions(
            learning_rate=learning_rate(settings),
            num_train_steps=num_steps,
            num_warmup_steps=num_warmup_steps,
            optimizer=settings.optimizer,
            gradient_accumulation_steps=settings.gradient_accumulation_steps,
            allreduce_dtype=None if wire == "float32" else tf.as_dtype(wire),
            shard_optimizer=settings.shard_optimizer,
            epsilon=settings.adam_epsilon,
            weight_decay=settings.weight_decay,
        )

    def num_groups(self) -> int:
        """Returns how many groups of layers start from the initial checkpoint's first."""
        return 0

    def assets(self) -> Assets:
        """See `Task.assets`: configuration and tokenizer, and what shapes all features."""
        settings = self.settings
        files = {CONFIG: settings.albert_config_file}
        for flag, name in zip(TOKENIZER_FLAGS, (SPM_MODEL, VOCABULARY), strict=True):
            if path := getattr(settings, flag):
                files[name] = path
                break
        description = {
            "task": self.kind,
            "do_lower_case": settings.do_lower_case,
            "max_seq_length": settings.max_seq_length,
        }
        return Assets(description, files)

    def compare(self, variables: Sequence[tf.Variable]) -> Initialized:
        found, _ = compare_with_checkpoint(
            variables, self.settings.init_checkpoint, self.num_groups()
        )
        return found

    def describe(self) -> Iterator[tuple[str, object]]:
        yield "vocabulary", f"{self.config.vocab_size} pieces, as in the configuration"


class TextTask(EncoderTask):
    """A task whose features are made from text.

    Attributes:
      tokenizer: of the model.
    """

    settings: TextSettings
    required: ClassVar[Sequence[str | tuple[str, ...]]]
    required = CONFIG_FLAGS, TOKENIZER_FLAGS, "output_dir"
    outputs: ClassVar[Sequence[str]] = (PAGE,)

    def __init__(self, settings: RunSettings):
        faults = Faults()
        with faults.collected():
            super().__init__(settings)
        with faults.collected():
            _check_buckets(settings)
        with faults.collected():
            self.tokenizer = load_tokenizer(settings, getattr(self, "config", None))
        faults.raise_all()

    @classmethod
    def inputs(cls, settings: RunSettings) -> Sequence[str]:
        return (*super().inputs(settings), *TOKENIZER_FLAGS)

    def contents(self, part: str) -> dict[str, Any]:
        name = next(name for name in TOKENIZER_FLAGS if getattr(self.settings, name))
        return {**super().contents(part), name: content_of(getattr(self.settings, name))}

    def model(self) -> dict[str, Any]:
        settings = self.settings
        files = {name: getattr(settings, name) for name in TOKENIZER_FLAGS}
        return used_model(super().model()[CONFIG_FLAGS[0]], files, settings.do_lower_case)

    def page(self) -> str:
        """Returns the page of the best checkpoint's predictions."""
        return os.path.join(self.settings.output_dir, PAGE)

    def samples(self) -> Iterator[str]:
        return samples_at_end(self.page())


def load_config(settings: RunSettings) -> EncoderConfig:
    """Returns the model's sizes under the flags.

    Raises:
      FlagError: sequences are longer than the model takes.
      UserError: the file is no configuration.
    """
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
    """Returns how many tokens are left beside those of another flag and the special ones.

    Raises:
      FlagError: there are none.
    """
    room = settings.max_seq_length - getattr(settings, name) - special_tokens
    if room <= 0:
        raise FlagError(
            f"--max_seq_length {settings.max_seq_length} must be more than --{name} "
            f"{getattr(settings, name)} + {special_tokens}"
        )
    return room


def _check_buckets(settings: RunSettings) -> None:
    """Raises a `FlagError` if batches cannot be cut to --length_buckets."""
    if not settings.length_buckets:
        return
    longest, length = settings.length_buckets[-1], settings.max_seq_length
    if longest != length:
        raise FlagError(
            f"--length_buckets must end with --max_seq_length {length}, not with {longest}"
        )
    for name in ("trim_batches", "mask_padding_in_loss"):
        # Those of SQuAD.
        if not getattr(settings, name, True):
            raise FlagError(f"--length_buckets cuts batches, and --{name}=false wants them whole")


def load_tokenizer(settings: RunSettings, config: EncoderConfig | None) -> FullTokenizer:
    """Returns the tokenizer of the flags; without a configuration its size is not compared.

    Raises:
      UserError: a file cannot be read, or it has not the model's vocabulary.
    """
    if settings.vocab_file:
        check_readable(settings.vocab_file, "--vocab_file")
    tokenizer = FullTokenizer(settings.vocab_file, settings.do_lower_case, settings.spm_model_file)
    tokenizer.check()
    if config:
        check_vocabulary(settings, tokenizer.size, config)
    return tokenizer


def check_vocabulary(settings: RunSettings, size: int, config: EncoderConfig) -> None:
    """Raises a `UserError` if a vocabulary has not the size that the configuration says."""
    if size != config.vocab_size:
        raise UserError(
            f"{settings.spm_model_file or settings.vocab_file} has {size} pieces, "
            f"{settings.albert_config_file} a vocab_size of {config.vocab_size}: they must be of "
            "the same model"
        )


def learning_rate(settings: RunSettings) -> float:
    """Returns the highest learning rate under the flags."""
    return settings.learning_rate * (collectives.size() if settings.scale_learning_rate else 1)


def steps_of_epochs(settings: RunSettings, num_examples: int, train_file: str) -> int:
    """Returns the steps of --num_train_epochs; they follow examples, not features.

    So it is in the reference.

    Raises:
      UserError: there is less than one, or too many to count.
    """
    size, epochs = global_batch_size(settings), settings.num_train_epochs
    steps = int(num_examples / size * epochs)
    if steps >= TOO_LARGE:
        raise FlagError(f"--num_train_epochs {epochs:g} takes too many steps: {steps:g}")
    if not steps:
        raise UserError(
            f"{train_file}: {num_examples} examples are less than one step of {size} in "
            f"--num_train_epochs {epochs:g}; give more of them, or lower --train_batch_size"
        )
    return steps
