"""Flags of the model, its tokenizer and its features that tasks share, and what they stand for."""

from __future__ import annotations

import os
from typing import Any

from absl import flags

import tokenization
from modeling import AlbertConfig
from runtime.errors import FlagError, UserError
from runtime.files import check_readable
from runtime.flags import (
    FLAGS,
    LONGEST_SEQUENCE,
    TOO_LARGE,
    global_batch_size,
    learning_rate,
    optimizer_options,
)


def define_text_flags(max_seq_length: int, shortest: int = 1) -> None:
    """How text becomes features; the length's default and least value are the task's."""
    flags.DEFINE_string("spm_model_file", None, "SentencePiece model of the pretrained ALBERT.")
    flags.DEFINE_string(
        "vocab_file", None, "Vocabulary that belongs to --spm_model_file; not needed with it."
    )
    flags.DEFINE_bool("do_lower_case", True, "Lower-case the text; true for all published ALBERTs.")
    flags.DEFINE_integer(
        "max_seq_length",
        max_seq_length,
        "Tokens of a feature.",
        lower_bound=shortest,
        upper_bound=LONGEST_SEQUENCE,
    )
    flags.DEFINE_integer(
        "preprocess_workers",
        len(os.sched_getaffinity(0)),
        "Processes that make features; the files are the same for any number. Default: the cores.",
        lower_bound=1,
    )


def load_config() -> AlbertConfig:
    """The model's sizes under the flags.

    Raises:
      FlagError: sequences are longer than the model takes.
      UserError: the file is no configuration.
    """
    config = AlbertConfig.from_json_file(FLAGS.albert_config_file)
    if FLAGS.max_seq_length > config.max_position_embeddings:
        raise FlagError(
            f"--max_seq_length {FLAGS.max_seq_length} is more than the "
            f"{config.max_position_embeddings} positions of {FLAGS.albert_config_file}"
        )
    if FLAGS.deterministic_run:
        config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0
    return config


def load_tokenizer(config: AlbertConfig) -> tokenization.FullTokenizer:
    """The tokenizer of the flags.

    Raises:
      UserError: a file cannot be read, or it has not the model's vocabulary.
    """
    if FLAGS.vocab_file:
        check_readable(FLAGS.vocab_file, "--vocab_file")
    tokenizer = tokenization.FullTokenizer(
        FLAGS.vocab_file, FLAGS.do_lower_case, FLAGS.spm_model_file
    )
    if len(tokenizer.vocab) != config.vocab_size:
        raise UserError(
            f"{FLAGS.spm_model_file} has {len(tokenizer.vocab)} pieces, "
            f"{FLAGS.albert_config_file} a vocab_size of {config.vocab_size}: they must be of the "
            "same model"
        )
    return tokenizer


def model_fn_options(num_train_steps: int | None, num_warmup_steps: int | None) -> dict[str, Any]:
    """The arguments under the flags that the `model_fn_builder` of every task takes."""
    return {
        "init_checkpoint": FLAGS.init_checkpoint,
        "learning_rate": learning_rate(),
        "num_train_steps": num_train_steps,
        "num_warmup_steps": num_warmup_steps,
        "use_tpu": False,
        "use_one_hot_embeddings": False,
        "use_einsum": FLAGS.use_einsum,
        "optimizer_options": optimizer_options(),
    }


def steps_of_epochs(num_examples: int, train_file: str) -> int:
    """Steps of --num_train_epochs; as in the reference they follow examples, not features.

    Raises:
      UserError: there is less than one, or too many to count.
    """
    steps = int(num_examples / global_batch_size() * FLAGS.num_train_epochs)
    if steps >= TOO_LARGE:
        raise FlagError(
            f"--num_train_epochs {FLAGS.num_train_epochs:g} takes too many steps: {steps:g}"
        )
    if not steps:
        raise UserError(
            f"{train_file}: {num_examples} examples are less than one step of "
            f"{global_batch_size()} in --num_train_epochs {FLAGS.num_train_epochs:g}; give more of "
            "them, or lower --train_batch_size"
        )
    return steps
