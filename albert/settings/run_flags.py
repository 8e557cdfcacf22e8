"""The flags that all programs share which train and score."""

from __future__ import annotations

import os
from collections.abc import Callable

from absl import flags

from albert.settings.flags import (
    CHECKPOINTS,
    DATA,
    DEVICE,
    DEVICES,
    LARGEST_BATCH,
    MODEL,
    TRAINING,
    WITHOUT_USE,
    Shapes,
    define,
    define_alias,
)


def define_flags(define_flags_of_task: Callable[[], None]) -> None:
    """Defines the flags of the program of a task."""
    define_run_flags()
    define_flags_of_task()
    define_ignored_flags()


def define_run_flags() -> None:
    """Defines where a run reads its model and writes its results, how it trains and how long."""
    _define_places()
    _define_batches()
    _define_schedule()
    _define_checkpoints()
    _define_device()


def _define_places() -> None:
    define(DATA, Shapes.NOTHING, True).path(
        "output_dir",
        os.path.join(os.environ.get("HOME", "."), "tmp"),
        "Folder of checkpoints and results. The same command with the same folder resumes.",
    )
    define(DATA, Shapes.NOTHING, True).switch(
        "overwrite_output_dir",
        False,
        "Remove what an earlier run left in --output_dir (feature files stay) and start anew.",
    )
    define(MODEL, Shapes.NOTHING).switch(
        "download",
        False,
        "Fetch the model of --init_checkpoint before the job if its folder is not there and its "
        "name is that of a published one, as in albert_base_v2/model.ckpt-best.",
    )
    define(DATA, Shapes.NOTHING, True).path(
        "export_dir", None, "Write the best model as a SavedModel below this folder."
    )
    define(MODEL, Shapes.WEIGHTS | Shapes.SCORES, True).path(
        "albert_config_file",
        None,
        "JSON of the model's sizes, of an ALBERT or a BERT; configs/ has the published ones. "
        "Required.",
    )
    define_alias("bert_config_file", "albert_config_file")
    define(MODEL, Shapes.WEIGHTS | Shapes.SCORES, True).path(
        "init_checkpoint",
        None,
        "Checkpoint to start from, usually a pretrained one: a path with or without .index, a "
        "folder with one checkpoint, or a folder of transformers.",
    )


def _define_batches() -> None:
    define(TRAINING, Shapes.WEIGHTS, True).integer(
        "train_batch_size",
        32,
        "Examples a step of each worker.",
        lower_bound=1,
        upper_bound=LARGEST_BATCH,
    )
    define(TRAINING, Shapes.WEIGHTS, True).integer(
        "gradient_accumulation_steps",
        1,
        "Batches of each worker whose gradients are added up for one step: a larger batch than "
        "fits into memory.",
        lower_bound=1,
        upper_bound=LARGEST_BATCH,
    )
    # The weights are the same but for rounding: a run that needs less memory is resumed with it.
    define(TRAINING, Shapes.JOB).switch(
        "gradient_checkpointing",
        False,
        "Compute each layer again in the backward pass, instead of keeping it in memory: larger "
        "models and batches, at some third more time. Same results but for rounding.",
    )
    define(TRAINING, Shapes.WEIGHTS).switch(
        "remove_padding",
        True,
        "Leave padding out of the layers, but for attention: less work, and the same results but "
        "for rounding and the masks of dropout. Not on the HPU.",
    )
    define(TRAINING, Shapes.JOB).integer(
        "predict_batch_size",
        8,
        "Examples a batch in prediction.",
        lower_bound=1,
        upper_bound=LARGEST_BATCH,
    )


def _define_schedule() -> None:
    define(TRAINING, Shapes.WEIGHTS, True).number(
        "learning_rate", 5e-5, "Highest learning rate.", lower_bound=0.0
    )
    define(TRAINING, Shapes.WEIGHTS, True).number(
        "num_train_epochs",
        2.0,
        "Passes over the training examples.",
        lower_bound=0.0,
        upper_bound=1e9,
    )
    define(TRAINING, Shapes.WEIGHTS, True).integer(
        "train_steps", -1, "Steps to train, if positive; takes the place of --num_train_epochs."
    )
    define(TRAINING, Shapes.WEIGHTS).number(
        "warmup_proportion",
        0.1,
        "Part of the training in which the learning rate rises linearly: 0.1 is 10%.",
        lower_bound=0.0,
        upper_bound=1.0,
    )
    define(TRAINING, Shapes.WEIGHTS).switch(
        "scale_learning_rate", False, "Multiply --learning_rate by the number of workers."
    )
    define(TRAINING, Shapes.WEIGHTS).integer(
        "seed",
        12345,
        "Fixes weights, dropout and the order of the data: the same seed, the same run.",
        lower_bound=0,
    )
    define(TRAINING, Shapes.WEIGHTS).switch(
        "deterministic_run",
        False,
        "Same results to the last bit: no dropout, and only operations that are deterministic on "
        "the device.",
    )


def _define_checkpoints() -> None:
    define(CHECKPOINTS, Shapes.NOTHING, True).integer(
        "save_checkpoints_steps", 5000, "Steps between checkpoints.", lower_bound=1
    )
    define(CHECKPOINTS, Shapes.NOTHING).number(
        "save_checkpoints_minutes",
        30.0,
        "Minutes between checkpoints at most; those that --save_checkpoints_steps does not ask for "
        "serve resuming alone and go when there is a newer one. 0 for none.",
        lower_bound=0.0,
    )
    define(CHECKPOINTS, Shapes.NOTHING).integer(
        "save_summary_steps", 1, "Steps between points of the TensorBoard curves.", lower_bound=1
    )
    define(CHECKPOINTS, Shapes.NOTHING).integer(
        "log_steps",
        100,
        "Steps between lines of the log; there is one every 30 s at least.",
        lower_bound=1,
    )


def _define_device() -> None:
    define(DEVICE, Shapes.NOTHING, True).choice(
        "device",
        "auto",
        DEVICES,
        "What to compute on; auto takes an HPU (Gaudi) if there is one, else a GPU, else the CPU.",
    )
    define(DEVICE, Shapes.NOTHING, True).switch(
        "use_horovod",
        False,
        "Work together with the other processes that mpirun has started, for instance: "
        "mpirun -np 8 python -m albert squad ... --use_horovod=true",
    )
    define(DEVICE, Shapes.NOTHING).number(
        "stall_seconds",
        300.0,
        "Seconds without an answer after which a worker that hangs or is stopped is named and the "
        "job ends; 0 to wait for ever.",
        lower_bound=0.0,
    )
    define(DEVICE, Shapes.WEIGHTS).choice(
        "allreduce_dtype",
        "float32",
        ["float32", "float16", "bfloat16"],
        "Type of the gradients on the way between workers; bfloat16 on the HPU only.",
    )
    define(DEVICE, Shapes.NOTHING).switch(
        "elastic_resume",
        False,
        "Go on with the run in --output_dir also with another number of workers, or another "
        "--train_batch_size, where a step can be of as many examples as it was; "
        "--gradient_accumulation_steps follows from that.",
    )
    # The weights are the same but for rounding: a run that needs less memory is resumed with it.
    define(DEVICE, Shapes.JOB).choice(
        "shard_optimizer",
        "none",
        ["none", "state", "gradients"],
        "With --use_horovod: of N workers each keeps an N-th of the optimizer's state, or also of "
        "the accumulated gradients, which are sent with every batch then. Same results but for "
        "rounding.",
    )
    define(DEVICE, Shapes.WEIGHTS).switch(
        "use_einsum", False, "Dense layers through tf.einsum instead of tf.matmul; same results."
    )
    define(DEVICE, Shapes.NOTHING).switch(
        "enable_scoped_allocator",
        False,
        "With habana-horovod: let TensorFlow place gradients that are averaged together side by "
        "side in memory.",
    )


def define_scoring_while_training() -> None:
    """Defines the flags of the programs that may score a checkpoint as soon as it is written."""
    define(CHECKPOINTS, Shapes.NOTHING).switch(
        "evaluate_while_training",
        False,
        "Score each checkpoint as soon as it is written, and not only after the training.",
    )
    define(CHECKPOINTS, Shapes.WEIGHTS).integer(
        "patience",
        0,
        "Stop after so many checkpoints without a better score; 0 to train to the last step. Means "
        "--evaluate_while_training too.",
        lower_bound=0,
    )


def define_keep_checkpoint_max() -> None:
    """Defines the flag of the programs that do not keep all checkpoints, as in the reference."""
    define(CHECKPOINTS, Shapes.NOTHING).integer(
        "keep_checkpoint_max",
        5,
        "Checkpoints that stay, the last ones, besides the best one; 0 for all. With --do_eval all "
        "are scored before any goes.",
        lower_bound=0,
    )


def define_from_scratch() -> None:
    """Defines the flag of the programs that are to start from a pretrained model."""
    define(MODEL, Shapes.NOTHING).switch(
        "from_scratch",
        False,
        "Start from random weights on purpose: no warning that --init_checkpoint is not given.",
    )


def define_ignored_flags() -> None:
    """Defines flags of the reference that have no use here, so that its commands work."""
    of_tpus, where = "Of the reference's TPU support; ignored.", {"module_name": WITHOUT_USE}
    flags.DEFINE_bool("use_tpu", False, "Must be false: this project does not run on TPU.", **where)
    for name in ("tpu_name", "tpu_zone", "gcp_project", "master"):
        flags.DEFINE_string(name, None, of_tpus, **where)
    flags.DEFINE_integer("num_tpu_cores", 8, of_tpus, **where)
    flags.DEFINE_integer("iterations_per_loop", 1000, of_tpus, **where)
    flags.DEFINE_string(
        "albert_hub_module_handle", None, "Not supported: give --init_checkpoint instead.", **where
    )
