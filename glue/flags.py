"""The flags of classification, and their checks."""

from __future__ import annotations

import math
import os

from absl import flags

import tokenization
from glue.custom import TsvProcessor
from glue.examples import DataProcessor
from glue.features import SHORTEST
from glue.tasks import PROCESSORS
from modeling import AlbertConfig
from runtime.errors import FlagError, UserError
from runtime.files import check_readable
from runtime.flags import FLAGS, global_batch_size

_CUSTOM = "tsv"
_TASKS = (*PROCESSORS, _CUSTOM)
# Of the reference, where neither steps nor epochs are given.
_TRAIN_STEPS = 1000


def define_glue_flags() -> None:
    """Data, model and schedule; call it after `define_run_flags`."""
    flags.DEFINE_string(
        "data_dir", None, "Folder with a folder a task, such as MRPC; of --task_name=tsv itself."
    )
    flags.DEFINE_string("task_name", None, f"One of {', '.join(_TASKS)}.")
    flags.DEFINE_bool(
        "tsv_regression", False, "With --task_name=tsv: labels are numbers to be predicted."
    )
    flags.DEFINE_bool("do_train", False, "Train on the training set.")
    flags.DEFINE_bool("do_eval", False, "Score every checkpoint on the development set.")
    flags.DEFINE_bool("do_predict", False, "Label the test set with the best checkpoint.")
    flags.DEFINE_string(
        "cached_dir",
        None,
        "Folder of the features of training and development: read if made from the same input, "
        "else written. Default: --output_dir.",
    )
    flags.DEFINE_string("spm_model_file", None, "SentencePiece model of the pretrained ALBERT.")
    flags.DEFINE_string(
        "vocab_file", None, "Vocabulary that belongs to --spm_model_file; not needed with it."
    )
    flags.DEFINE_bool("do_lower_case", True, "Lower-case the text; true for all published ALBERTs.")
    flags.DEFINE_integer(
        "max_seq_length",
        512,
        "Tokens of a feature; of longer texts the end is cut off.",
        lower_bound=SHORTEST,
    )
    flags.DEFINE_integer(
        "preprocess_workers",
        len(os.sched_getaffinity(0)),
        "Processes that make features; the files are the same for any number. Default: the cores.",
        lower_bound=1,
    )
    flags.DEFINE_alias("train_step", "train_steps")
    flags.DEFINE_alias("eval_batch_size", "predict_batch_size")
    flags.DEFINE_integer(
        "warmup_step",
        0,
        "Steps in which the learning rate rises; takes the place of --warmup_proportion.",
        lower_bound=0,
    )
    flags.DEFINE_enum("optimizer", "adamw", ["adamw", "lamb"], "What updates the weights.")
    flags.DEFINE_integer(
        "keep_checkpoint_max",
        5,
        "Checkpoints that stay, besides the best one, when all are scored; 0 for all.",
        lower_bound=0,
    )
    flags.DEFINE_float(
        "threshold_to_export", float("nan"), "Number that the exported model gives as `threshold`."
    )
    # The reference's: the length is 1000 steps, without warmup, unless flags say otherwise.
    for name, value in (
        ("num_train_epochs", 0.0),
        ("warmup_proportion", 0.0),
        ("save_checkpoints_steps", 1000),
    ):
        FLAGS.set_default(name, value)


def make_processor() -> DataProcessor:
    """The processor of --task_name.

    Raises:
      FlagError: there is no such task.
      UserError: --data_dir is no folder.
    """
    name = FLAGS.task_name.lower()
    if name not in _TASKS:
        raise FlagError(f"--task_name={FLAGS.task_name} is no task; there are {', '.join(_TASKS)}")
    if FLAGS.tsv_regression and name != _CUSTOM:
        raise FlagError(f"--tsv_regression is for --task_name={_CUSTOM} only")
    if not os.path.isdir(FLAGS.data_dir):
        raise UserError(f"--data_dir {FLAGS.data_dir} is no folder")
    if name == _CUSTOM:
        return TsvProcessor(True, FLAGS.do_lower_case, FLAGS.data_dir, FLAGS.tsv_regression)
    return PROCESSORS[name](use_spm=True, do_lower_case=FLAGS.do_lower_case)


def load_config() -> AlbertConfig:
    """The model's sizes under the flags.

    Raises:
      FlagError: features are longer than the model takes, or a number is not finite.
      UserError: the file is no configuration.
    """
    config = AlbertConfig.from_json_file(FLAGS.albert_config_file)
    if FLAGS.max_seq_length > config.max_position_embeddings:
        raise FlagError(
            f"--max_seq_length {FLAGS.max_seq_length} is more than the "
            f"{config.max_position_embeddings} positions of {FLAGS.albert_config_file}"
        )
    for name in ("learning_rate", "num_train_epochs"):
        if not math.isfinite(getattr(FLAGS, name)):
            raise FlagError(f"--{name} must be a finite number, not {getattr(FLAGS, name)}")
    if FLAGS.deterministic_run:
        config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0
    return config


def load_tokenizer(config: AlbertConfig) -> tokenization.FullTokenizer:
    """The tokenizer of the flags, which must have the model's vocabulary."""
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


def num_train_steps(num_examples: int, train_file: str) -> int:
    """--train_step, or else what --num_train_epochs come to, or else the reference's number.

    Raises:
      UserError: the epochs are shorter than one step.
    """
    if FLAGS.train_steps > 0 or not FLAGS.num_train_epochs:
        return FLAGS.train_steps if FLAGS.train_steps > 0 else _TRAIN_STEPS
    steps = int(num_examples / global_batch_size() * FLAGS.num_train_epochs)
    if not steps:
        raise UserError(
            f"{train_file}: {num_examples} examples are less than one step of "
            f"{global_batch_size()} in --num_train_epochs {FLAGS.num_train_epochs:g}; lower "
            "--train_batch_size"
        )
    return steps


def num_warmup_steps(num_steps: int) -> int:
    """--warmup_step, or else what --warmup_proportion comes to."""
    return FLAGS.warmup_step or int(num_steps * FLAGS.warmup_proportion)
