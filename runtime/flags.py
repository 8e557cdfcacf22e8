"""Flags that all programs share, and checks of flags."""

from __future__ import annotations

import math
import os
from typing import Any

import tensorflow.compat.v1 as tf
from absl import flags

from runtime import distributed
from runtime.bf16 import configuration
from runtime.devices import device
from runtime.errors import FlagError
from runtime.training.loop import TrainingPlan

FLAGS = flags.FLAGS
# Where flags are defined that the reference has and nothing here needs: a heading in `--help`.
WITHOUT_USE = "without use here, accepted for compatibility"
# By these TensorFlow takes the path of a checkpoint for a pattern, and may not find its files.
_OF_PATTERNS = frozenset("*?[\\")
NO_UTF8 = (
    "is not UTF-8 text, as TensorFlow needs it: rename the file, or set PYTHONUTF8=1 where the "
    "locale is to blame"
)
# What is counted in 32 bits somewhere below.
TOO_LARGE = 2**31
# Far beyond any use; the graph and its batches are made all the same, until memory runs out.
LONGEST_SEQUENCE = 2**16
_LARGEST_BATCH = 2**20


def define_run_flags() -> None:
    """Where a run reads its model and writes its results, how it trains and how long."""
    flags.DEFINE_string(
        "output_dir",
        os.path.join(os.environ.get("HOME", "."), "tmp"),
        "Folder of checkpoints and results. The same command with the same folder resumes.",
    )
    flags.DEFINE_bool(
        "overwrite_output_dir",
        False,
        "Remove what an earlier run left in --output_dir (feature files stay) and start anew.",
    )
    flags.DEFINE_string(
        "albert_config_file", None, "JSON of the model's sizes; configs/ has the published ones."
    )
    flags.DEFINE_string(
        "init_checkpoint",
        None,
        "Checkpoint to start from, usually a pretrained one: a path with or without .index, or a "
        "folder with one checkpoint.",
    )
    flags.DEFINE_string(
        "export_dir", None, "Write the best model as a SavedModel below this folder."
    )
    flags.DEFINE_integer(
        "train_batch_size",
        32,
        "Examples a step of each worker.",
        lower_bound=1,
        upper_bound=_LARGEST_BATCH,
    )
    flags.DEFINE_integer(
        "gradient_accumulation_steps",
        1,
        "Batches of each worker whose gradients are added up for one step: a larger batch than "
        "fits into memory.",
        lower_bound=1,
        upper_bound=_LARGEST_BATCH,
    )
    flags.DEFINE_integer(
        "predict_batch_size",
        8,
        "Examples a batch in prediction.",
        lower_bound=1,
        upper_bound=_LARGEST_BATCH,
    )
    flags.DEFINE_float("learning_rate", 5e-5, "Highest learning rate.", lower_bound=0.0)
    flags.DEFINE_float(
        "num_train_epochs",
        2.0,
        "Passes over the training examples.",
        lower_bound=0.0,
        upper_bound=1e9,
    )
    flags.DEFINE_integer(
        "train_steps", -1, "Steps to train, if positive; takes the place of --num_train_epochs."
    )
    flags.DEFINE_float(
        "warmup_proportion",
        0.1,
        "Part of the training in which the learning rate rises linearly: 0.1 is 10%.",
        lower_bound=0.0,
        upper_bound=1.0,
    )
    flags.DEFINE_integer(
        "save_checkpoints_steps", 5000, "Steps between checkpoints.", lower_bound=1
    )
    flags.DEFINE_float(
        "save_checkpoints_minutes",
        30.0,
        "Minutes between checkpoints at most; those that --save_checkpoints_steps does not ask for "
        "serve resuming alone and go when there is a newer one. 0 for none.",
        lower_bound=0.0,
    )
    flags.DEFINE_integer(
        "save_summary_steps", 1, "Steps between points of the TensorBoard curves.", lower_bound=1
    )
    flags.DEFINE_integer(
        "log_steps",
        100,
        "Steps between lines of the log; there is one every 30 s at least.",
        lower_bound=1,
    )
    flags.DEFINE_integer(
        "seed",
        12345,
        "Fixes weights, dropout and the order of the data: the same seed, the same run.",
        lower_bound=0,
    )
    flags.DEFINE_bool(
        "deterministic_run",
        False,
        "Same results to the last bit: no dropout, and only operations that are deterministic on "
        "the device.",
    )
    flags.DEFINE_bool(
        "use_einsum", False, "Dense layers through tf.einsum instead of tf.matmul; same results."
    )
    flags.DEFINE_enum(
        "device",
        "auto",
        device.KINDS,
        "What to compute on; auto takes an HPU (Gaudi) if there is one, else a GPU, else the CPU.",
    )
    flags.DEFINE_bool(
        "use_horovod",
        False,
        "Work together with the other processes that mpirun has started, for instance: "
        "mpirun -np 8 python run_squad_v1.py ... --use_horovod=true",
    )
    flags.DEFINE_float(
        "stall_seconds",
        300.0,
        "Seconds without an answer after which a worker that hangs or is stopped is named and the "
        "job ends; 0 to wait for ever.",
        lower_bound=0.0,
    )
    flags.DEFINE_enum(
        "allreduce_dtype",
        "float32",
        ["float32", "float16", "bfloat16"],
        "Type of the gradients on the way between workers; bfloat16 on the HPU only.",
    )
    flags.DEFINE_bool(
        "scale_learning_rate", False, "Multiply --learning_rate by the number of workers."
    )
    flags.DEFINE_bool(
        "enable_scoped_allocator",
        False,
        "With habana-horovod: let TensorFlow place gradients that are averaged together side by "
        "side in memory.",
    )


def define_ignored_flags() -> None:
    """Flags of the reference that have no use here; accepted so that its commands work."""
    of_tpus, where = "Of the reference's TPU support; ignored.", {"module_name": WITHOUT_USE}
    flags.DEFINE_bool("use_tpu", False, "Must be false: this project does not run on TPU.", **where)
    for name in ("tpu_name", "tpu_zone", "gcp_project", "master"):
        flags.DEFINE_string(name, None, of_tpus, **where)
    flags.DEFINE_integer("num_tpu_cores", 8, of_tpus, **where)
    flags.DEFINE_integer("iterations_per_loop", 1000, of_tpus, **where)
    flags.DEFINE_string(
        "albert_hub_module_handle", None, "Not supported: give --init_checkpoint instead.", **where
    )


def check_run_flags() -> None:
    """Checks what all programs have in common, and makes this process a worker of its job.

    Raises:
      FlagError: the flags ask for what the reference has and this project has not.
      UserError: Horovod is needed and not installed, the device is not there, or the environment
        names a bfloat16 configuration that is no good.
    """
    if FLAGS.use_tpu:
        raise FlagError(
            "--use_tpu=true: this project does not run on TPU; leave the flag out to run on HPU, "
            "GPU or CPU"
        )
    if FLAGS.albert_hub_module_handle:
        raise FlagError(
            "--albert_hub_module_handle is not supported; download the model with "
            "download/download_pretrained_model.py and give --init_checkpoint, "
            "--albert_config_file and --spm_model_file"
        )
    if "from_scratch" in FLAGS and FLAGS.from_scratch and FLAGS.init_checkpoint:
        raise FlagError("--from_scratch and --init_checkpoint contradict each other; leave one out")
    for name in ("output_dir", "init_checkpoint", "export_dir"):
        _check_is_no_pattern(name)
    device.choose(FLAGS.device)
    if FLAGS.allreduce_dtype == "bfloat16" and not device.is_hpu():
        raise FlagError(
            "--allreduce_dtype=bfloat16 works on the HPU only: Horovod has no bfloat16 for "
            "TensorFlow elsewhere; use float16 or float32"
        )
    distributed.start(FLAGS.use_horovod)
    # A fault of it is to show before any work.
    configuration.from_environment()


def _check_is_no_pattern(name: str) -> None:
    found = sorted(_OF_PATTERNS.intersection(getattr(FLAGS, name) or ""))
    if found:
        raise FlagError(
            f"--{name} {getattr(FLAGS, name)}: TensorFlow takes a path with {' '.join(found)} for "
            "a pattern of names; give one without it, such as a symbolic link to the folder"
        )


def global_batch_size() -> int:
    """Examples of a training step, of all workers and accumulated batches together."""
    return FLAGS.train_batch_size * FLAGS.gradient_accumulation_steps * distributed.size()


def learning_rate() -> float:
    """The highest learning rate under the flags."""
    return FLAGS.learning_rate * (distributed.size() if FLAGS.scale_learning_rate else 1)


def optimizer_options() -> dict[str, Any]:
    """The flags among the arguments of `optimization.create_optimizer`."""
    wire = FLAGS.allreduce_dtype
    return {
        "gradient_accumulation_steps": FLAGS.gradient_accumulation_steps,
        "allreduce_dtype": None if wire == "float32" else tf.as_dtype(wire),
    }


def define_keep_checkpoint_max() -> None:
    """Of the programs that do not keep all checkpoints, as in the reference."""
    flags.DEFINE_integer(
        "keep_checkpoint_max",
        5,
        "Checkpoints that stay, the last ones, besides the best one; 0 for all. With --do_eval all "
        "are scored before any goes.",
        lower_bound=0,
    )


def define_from_scratch() -> None:
    """Defines the flag of the programs that are to start from a pretrained model."""
    flags.DEFINE_bool(
        "from_scratch",
        False,
        "Start from random weights on purpose: no warning that --init_checkpoint is not given.",
    )


def is_by_oversight_from_scratch() -> bool:
    """Returns whether weights are random at the beginning though nobody has said that they be."""
    return "from_scratch" in FLAGS and not FLAGS.from_scratch and not FLAGS.init_checkpoint


def keep_checkpoint_max() -> int:
    """How many checkpoints stay at the end; 0 for all."""
    return FLAGS.keep_checkpoint_max if "keep_checkpoint_max" in FLAGS else 0


def kept_in_training() -> int:
    """How many checkpoints stay while training goes on; 0 for all."""
    return 0 if "do_eval" in FLAGS and FLAGS.do_eval else keep_checkpoint_max()


def training_plan(num_steps: int) -> TrainingPlan:
    """The flags that tell how to train."""
    return TrainingPlan(
        num_steps,
        global_batch_size(),
        FLAGS.gradient_accumulation_steps,
        FLAGS.save_checkpoints_steps,
        FLAGS.save_summary_steps,
        FLAGS.log_steps,
        kept_in_training(),
        FLAGS.save_checkpoints_minutes,
    )


def check_values() -> None:
    """Checks what the value of no flag may be, whatever its own bounds.

    Raises:
      FlagError: a number is not finite or does not fit into 32 bits, or a text is not UTF-8.
    """
    for name in FLAGS:
        values = FLAGS[name].value
        for value in values if isinstance(values, list) else [values]:
            if isinstance(value, float):
                # A default may say by it that there is none.
                if not (math.isfinite(value) or FLAGS[name].using_default_value):
                    raise FlagError(f"--{name} must be a finite number, not {value}")
            elif isinstance(value, int):
                if not -TOO_LARGE < value < TOO_LARGE:
                    raise FlagError(f"--{name} must be below {TOO_LARGE}, not {value}")
            elif isinstance(value, str) and value != value.encode(errors="replace").decode():
                raise FlagError(f"--{name}={value!r} {NO_UTF8}")


def require(*names: str) -> None:
    """Raises a `FlagError` for the first of the flags that has no value."""
    for name in names:
        if not getattr(FLAGS, name):
            raise FlagError(f"--{name} is required")


def wanted(task: str, file_flag: str) -> bool:
    """Whether a task such as "do_train" is to be done: it is on, and its file is given.

    A task that is on by default is off, with a log line, if its file is not given.

    Raises:
      FlagError: the task was asked for without its file.
    """
    if not getattr(FLAGS, task):
        return False
    if getattr(FLAGS, file_flag):
        return True
    if FLAGS[task].present:
        raise FlagError(f"--{task} needs --{file_flag}")
    tf.logging.info("--%s is off, because --%s is not given", task, file_flag)
    return False
