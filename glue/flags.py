"""The flags of classification, and their checks."""

from __future__ import annotations

import os

from absl import flags

from glue.custom import TsvProcessor
from glue.examples import DEV, TRAIN, DataProcessor
from glue.features import SHORTEST
from glue.tasks import PROCESSORS
from model_flags import define_text_flags, steps_of_epochs
from runtime.errors import FlagError, UserError
from runtime.flags import FLAGS, define_from_scratch, define_keep_checkpoint_max

_CUSTOM = "tsv"
_TASKS = (*PROCESSORS, _CUSTOM)
# The reference's: 1000 steps, without warmup, unless flags say otherwise.
_DEFAULTS = {
    "train_steps": 1000,
    "num_train_epochs": 0.0,
    "warmup_proportion": 0.0,
    "save_checkpoints_steps": 1000,
}


def define_glue_flags() -> None:
    """Data, model and schedule; call it after `define_run_flags`."""
    # Before the aliases, which take over what the defaults are then.
    for name, value in _DEFAULTS.items():
        FLAGS.set_default(name, value)
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
    flags.DEFINE_string(
        "input_file",
        None,
        "Folder with a ready train.tf_record, which takes the place of the training features in "
        "--cached_dir; where it has none, they are used.",
    )
    define_text_flags(max_seq_length=512, shortest=SHORTEST)
    flags.DEFINE_alias("train_step", "train_steps")
    flags.DEFINE_alias("eval_batch_size", "predict_batch_size")
    flags.DEFINE_integer(
        "warmup_step",
        0,
        "Steps in which the learning rate rises; takes the place of --warmup_proportion.",
        lower_bound=0,
    )
    flags.DEFINE_enum("optimizer", "adamw", ["adamw", "lamb"], "What updates the weights.")
    define_from_scratch()
    define_keep_checkpoint_max()
    flags.DEFINE_float(
        "threshold_to_export", float("nan"), "Number that the exported model gives as `threshold`."
    )


def make_processor() -> DataProcessor:
    """The processor of --task_name.

    Raises:
      FlagError: there is no such task, nothing to do, or no step to train.
      UserError: --data_dir is no folder.
    """
    if not (FLAGS.do_train or FLAGS.do_eval or FLAGS.do_predict or FLAGS.export_dir):
        raise FlagError("nothing to do: give --do_train, --do_eval, --do_predict or --export_dir")
    name = FLAGS.task_name.lower()
    if name not in _TASKS:
        raise FlagError(f"--task_name={FLAGS.task_name} is no task; there are {', '.join(_TASKS)}")
    if FLAGS.tsv_regression and name != _CUSTOM:
        raise FlagError(f"--tsv_regression is for --task_name={_CUSTOM} only")
    if FLAGS.train_steps < 1:
        raise FlagError(f"--train_step must be positive, not {FLAGS.train_steps}")
    if not os.path.isdir(FLAGS.data_dir):
        raise UserError(f"--data_dir {FLAGS.data_dir} is no folder")
    if name == _CUSTOM:
        return TsvProcessor(True, FLAGS.do_lower_case, FLAGS.data_dir, FLAGS.tsv_regression)
    return PROCESSORS[name](use_spm=True, do_lower_case=FLAGS.do_lower_case)


def feature_path(part: str) -> str:
    """Where the features of a part of the data set are or will be."""
    cached = FLAGS.cached_dir or FLAGS.output_dir
    task = FLAGS.task_name.lower()
    ready = os.path.join(FLAGS.input_file or "", "train.tf_record")
    if part == TRAIN and FLAGS.input_file and os.path.exists(ready):
        return ready
    if part == TRAIN:
        return os.path.join(cached, f"{task}_train.tf_record")
    if part == DEV:
        return os.path.join(cached, f"{task}_eval.tf_record")
    return os.path.join(FLAGS.output_dir, "predict.tf_record")


def num_train_steps(num_examples: int, train_file: str) -> int:
    """What --num_train_epochs come to where they alone are given, else --train_step.

    Raises:
      UserError: the epochs are shorter than one step.
    """
    if FLAGS.num_train_epochs and not FLAGS["train_steps"].present:
        return steps_of_epochs(num_examples, train_file)
    return FLAGS.train_steps


def num_warmup_steps(num_steps: int) -> int:
    """--warmup_step, or else what --warmup_proportion comes to."""
    return FLAGS.warmup_step or int(num_steps * FLAGS.warmup_proportion)
