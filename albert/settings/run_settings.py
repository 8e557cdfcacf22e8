"""The settings that all programs share which train and score."""

from __future__ import annotations

import os

from albert.settings.fields import (
    CHECKPOINTS,
    DATA,
    DEVICE,
    DEVICES,
    LARGEST_BATCH,
    MODEL,
    TRAINING,
    WITHOUT_USE,
    Affects,
    Settings,
    setting,
)

# As in `optimization`, which cannot be imported without TensorFlow.
OPTIMIZERS = ("adamw", "lamb", "radam")
EPSILON, WEIGHT_DECAY = 1e-6, 0.01


class PathSettings(Settings):
    """Where a run reads its model and writes its results."""

    output_dir: str = setting(
        os.path.join(os.environ.get("HOME", "."), "tmp"),
        "Folder of checkpoints and results. The same command with the same folder resumes.",
        DATA,
        basic=True,
        path=True,
    )
    overwrite_output_dir: bool = setting(
        False,
        "Remove what an earlier run left in --output_dir (feature files stay) and start anew.",
        DATA,
        basic=True,
    )
    download: bool = setting(
        False,
        "Fetch the model of --init_checkpoint before the job if its folder is not there and "
        "its name is that of a published one, as in albert_base_v2/model.ckpt-best.",
        MODEL,
    )
    export_dir: str = setting(
        "", "Write the best model as a SavedModel below this folder.", DATA, basic=True, path=True
    )
    albert_config_file: str = setting(
        "",
        "JSON of the model's sizes, of an ALBERT or a BERT; configs/ has the published ones. "
        "Required.",
        MODEL,
        Affects.WEIGHTS | Affects.SCORES,
        basic=True,
        path=True,
        aliases=("bert_config_file",),
    )
    init_checkpoint: str = setting(
        "",
        "Checkpoint to start from, usually a pretrained one: a path with or without .index, a "
        "folder with one checkpoint, or a folder of transformers.",
        MODEL,
        Affects.WEIGHTS | Affects.SCORES,
        basic=True,
        path=True,
    )


class BatchSettings(Settings):
    """How many examples are computed at once, and how."""

    train_batch_size: int = setting(
        32,
        "Examples a step of each worker.",
        TRAINING,
        Affects.WEIGHTS,
        basic=True,
        lower=1,
        upper=LARGEST_BATCH,
    )
    gradient_accumulation_steps: int = setting(
        1,
        "Batches of each worker whose gradients are added up for one step: a larger batch "
        "than fits into memory.",
        TRAINING,
        Affects.WEIGHTS,
        basic=True,
        lower=1,
        upper=LARGEST_BATCH,
    )
    gradient_checkpointing: bool = setting(
        False,
        "Compute each layer again in the backward pass, instead of keeping it in memory: "
        "larger models and batches, at some third more time. Same results but for rounding.",
        TRAINING,
        Affects.JOB,
    )
    remove_padding: bool = setting(
        True,
        "Leave padding out of the layers, but for attention: less work, and the same results "
        "but for rounding and the masks of dropout. Not on the HPU.",
        TRAINING,
        Affects.WEIGHTS,
    )
    predict_batch_size: int = setting(
        8, "Examples a batch in prediction.", TRAINING, Affects.JOB, lower=1, upper=LARGEST_BATCH
    )


class ScheduleSettings(Settings):
    """How long and how fast a run trains, and by which optimizer."""

    learning_rate: float = setting(
        5e-05, "Highest learning rate.", TRAINING, Affects.WEIGHTS, basic=True, lower=0.0
    )
    num_train_epochs: float = setting(
        2.0,
        "Passes over the training examples.",
        TRAINING,
        Affects.WEIGHTS,
        basic=True,
        lower=0.0,
        upper=1000000000.0,
    )
    train_steps: int = setting(
        -1,
        "Steps to train, if positive; takes the place of --num_train_epochs.",
        TRAINING,
        Affects.WEIGHTS,
        basic=True,
    )
    warmup_proportion: float = setting(
        0.1,
        "Part of the training in which the learning rate rises linearly: 0.1 is 10%.",
        TRAINING,
        Affects.WEIGHTS,
        lower=0.0,
        upper=1.0,
    )
    scale_learning_rate: bool = setting(
        False, "Multiply --learning_rate by the number of workers.", TRAINING, Affects.WEIGHTS
    )
    seed: int = setting(
        12345,
        "Fixes weights, dropout and the order of the data: the same seed, the same run.",
        TRAINING,
        Affects.WEIGHTS,
        lower=0,
    )
    deterministic_run: bool = setting(
        False,
        "Same results to the last bit: no dropout, and only operations that are deterministic "
        "on the device.",
        TRAINING,
        Affects.WEIGHTS,
    )
    optimizer: str = setting(
        "adamw", "What updates the weights.", TRAINING, Affects.WEIGHTS, choices=OPTIMIZERS
    )
    adam_epsilon: float = setting(
        EPSILON,
        "What every optimizer adds to the root of its second moment.",
        TRAINING,
        Affects.WEIGHTS,
        lower=1e-20,
    )
    weight_decay: float = setting(
        WEIGHT_DECAY,
        "Decay of all weights but biases and layer norms, as a part of the learning rate.",
        TRAINING,
        Affects.WEIGHTS,
        lower=0.0,
    )


class CheckpointSettings(Settings):
    """When a run writes checkpoints and logs, and when it scores them."""

    save_checkpoints_steps: int = setting(
        5000, "Steps between checkpoints.", CHECKPOINTS, basic=True, lower=1
    )
    save_checkpoints_minutes: float = setting(
        30.0,
        "Minutes between checkpoints at most; those that --save_checkpoints_steps does not "
        "ask for serve resuming alone and go when there is a newer one. 0 for none.",
        CHECKPOINTS,
        lower=0.0,
    )
    save_summary_steps: int = setting(
        1, "Steps between points of the TensorBoard curves.", CHECKPOINTS, lower=1
    )
    log_steps: int = setting(
        100,
        "Steps between lines of the log; there is one every 30 s at least.",
        CHECKPOINTS,
        lower=1,
    )
    evaluate_while_training: bool = setting(
        False,
        "Score each checkpoint as soon as it is written, and not only after the training.",
        CHECKPOINTS,
    )
    patience: int = setting(
        0,
        "Stop after so many checkpoints without a better score; 0 to train to the last step. "
        "Means --evaluate_while_training too.",
        CHECKPOINTS,
        Affects.WEIGHTS,
        lower=0,
    )
    # Of the programs that keep only some checkpoints, see `KeptCheckpoints`; 0 for all.
    keep_checkpoint_max: int = 0


class DeviceSettings(Settings):
    """Which device computes, and how workers share the work."""

    device: str = setting(
        "auto",
        "What to compute on; auto takes an HPU (Gaudi) if there is one, else a GPU, else the CPU.",
        DEVICE,
        basic=True,
        choices=DEVICES,
    )
    use_horovod: bool = setting(
        False,
        "Work together with the other processes that mpirun has started, for instance: mpirun "
        "-np 8 python -m albert squad ... --use_horovod=true",
        DEVICE,
        basic=True,
    )
    stall_seconds: float = setting(
        300.0,
        "Seconds without an answer after which a worker that hangs or is stopped is named and "
        "the job ends; 0 to wait for ever.",
        DEVICE,
        lower=0.0,
    )
    allreduce_dtype: str = setting(
        "float32",
        "Type of the gradients on the way between workers; bfloat16 on the HPU only.",
        DEVICE,
        Affects.WEIGHTS,
        choices=("float32", "float16", "bfloat16"),
    )
    elastic_resume: bool = setting(
        False,
        "Go on with the run in --output_dir also with another number of workers, or another "
        "--train_batch_size, where a step can be of as many examples as it was; "
        "--gradient_accumulation_steps follows from that.",
        DEVICE,
    )
    shard_optimizer: str = setting(
        "none",
        "With --use_horovod: of N workers each keeps an N-th of the optimizer's state, or "
        "also of the accumulated gradients, which are sent with every batch then. Same "
        "results but for rounding.",
        DEVICE,
        Affects.JOB,
        choices=("none", "state", "gradients"),
    )
    use_einsum: bool = setting(
        False,
        "Dense layers through tf.einsum instead of tf.matmul; same results.",
        DEVICE,
        Affects.WEIGHTS,
    )
    enable_scoped_allocator: bool = setting(
        False,
        "With habana-horovod: let TensorFlow place gradients that are averaged together side "
        "by side in memory.",
        DEVICE,
    )


class IgnoredSettings(Settings):
    """Flags of the reference that have no use here, so that its commands work."""

    use_tpu: bool = setting(False, "Must be false: this project does not run on TPU.", WITHOUT_USE)
    tpu_name: str | None = setting(None, "Of the reference's TPU support; ignored.", WITHOUT_USE)
    tpu_zone: str | None = setting(None, "Of the reference's TPU support; ignored.", WITHOUT_USE)
    gcp_project: str | None = setting(None, "Of the reference's TPU support; ignored.", WITHOUT_USE)
    master: str | None = setting(None, "Of the reference's TPU support; ignored.", WITHOUT_USE)
    num_tpu_cores: int = setting(8, "Of the reference's TPU support; ignored.", WITHOUT_USE)
    iterations_per_loop: int = setting(
        1000, "Of the reference's TPU support; ignored.", WITHOUT_USE
    )
    albert_hub_module_handle: str | None = setting(
        None, "Not supported: give --init_checkpoint instead.", WITHOUT_USE
    )


class RunSettings(
    PathSettings,
    BatchSettings,
    ScheduleSettings,
    CheckpointSettings,
    DeviceSettings,
    IgnoredSettings,
):
    """What every run is set by; a task adds fields, and may have other defaults.

    Attributes:
      max_seq_length: tokens of a feature.
      length_buckets: see `TextSettings`; None where batches have one length.
      from_scratch: likewise; None where a run need not start from a pretrained model.
      spm_model_file, vocab_file: the tokenizer's file; the first that is given counts.
      do_lower_case: whether the tokenizer makes text lower case.
      do_train, do_predict: what is done.
      do_eval: whether every checkpoint is scored, and so none goes before.
    """

    max_seq_length: int = 512
    length_buckets: tuple[int, ...] | None = None
    from_scratch: bool | None = None
    spm_model_file: str | None = None
    vocab_file: str | None = None
    do_lower_case: bool = True
    do_train: bool = True
    do_eval: bool = False
    do_predict: bool = False


class KeptCheckpoints(Settings):
    """Of programs that do not keep all checkpoints, as in the reference."""

    keep_checkpoint_max: int = setting(
        5,
        "Checkpoints that stay, the last ones, besides the best one; 0 for all. With "
        "--do_eval all are scored before any goes.",
        CHECKPOINTS,
        lower=0,
    )
