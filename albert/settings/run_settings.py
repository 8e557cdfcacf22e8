"""The settings that all programs which train and score share."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from albert.core.errors import FlagError
from albert.settings.engines import AUTO, ENGINES
from albert.settings.fields import (
    CHECKPOINTS,
    DATA,
    DEVICE,
    DEVICES,
    IGNORED,
    LARGEST_BATCH,
    MODEL,
    TRAINING,
    Affects,
    Settings,
    setting,
)

# The same values as in `optimization`, whose import needs TensorFlow.
OPTIMIZERS = ("adamw", "adamw_corrected", "lamb", "radam")
ENGINE_HELP = (
    "Software that computes the encoder in prediction. auto is openvino on a CPU, if the packages "
    "onnx and openvino are installed, otherwise tensorflow."
)
PRECISION_HELP = (
    "Type in which the encoder computes. auto: the value of TF_BF16_CONVERSION, and without it "
    "bfloat16 on a CPU that multiplies faster in it, otherwise float32."
)
PRECISIONS = ("float32", "bfloat16", "float16")
SCHEDULES = ("linear", "constant")
# Values of --recipe.
AUTO_RECIPE, REFERENCE = RECIPES = ("auto", "reference")
# Values of --track.
NO_TRACKER, MLFLOW = "none", "mlflow"
EPSILON, WEIGHT_DECAY = 1e-6, 0.01
# The most tokens of a text for a head of `transformers`, which records no length of its training.
_WINDOW = 384
_FOR_TPU = "A flag of the reference for TPUs; ignored."

AnyRunSettings = TypeVar("AnyRunSettings", bound="RunSettings")


class PathSettings(Settings, theme=MODEL):
    """The model that a run reads, and the folders that it writes."""

    output_dir: str = setting(
        os.path.join(os.environ.get("HOME", "."), "tmp"),
        "Folder for checkpoints and results. To resume a run, repeat its command with the same "
        "folder.",
        DATA,
        basic=True,
        path=True,
    )
    overwrite_output_dir: bool = setting(
        False,
        "Remove the files of an earlier run from --output_dir, except feature files, and start "
        "again.",
        DATA,
    )
    export_dir: str = setting(
        "",
        "Export the best model as a SavedModel to a subfolder of this folder.",
        DATA,
        basic=True,
        path=True,
    )
    model: str = setting(
        "",
        "Model, by folder or published name. The folder is one of Hugging Face's transformers, the "
        "--output_dir of a run, an export, or one with a checkpoint, its configuration and its "
        "tokenizer. Sets the flags of these files and of the tokenizer.",
        basic=True,
    )
    albert_config_file: str = setting(
        "",
        "JSON file with the sizes of an ALBERT or BERT model; configs/ has those of the published "
        "models. Required unless you pass --model.",
        affects=Affects.WEIGHTS | Affects.SCORES,
        basic=True,
        path=True,
        aliases=("bert_config_file",),
    )
    init_checkpoint: str = setting(
        "",
        "Checkpoint to start from, usually a pretrained one. It is a path with or without .index, "
        "a folder with one checkpoint, or a folder of Hugging Face's transformers.",
        affects=Affects.WEIGHTS | Affects.SCORES,
        basic=True,
        path=True,
    )
    new_head: bool | None = setting(
        None,
        "Start the head from random values. Default: only if its labels or shapes differ from the "
        "checkpoint's, with a warning; false makes that an error.",
        affects=Affects.WEIGHTS,
    )


class BatchSettings(Settings, theme=TRAINING, affects=Affects.WEIGHTS):
    """Batch sizes, and ways to save memory and work."""

    train_batch_size: int = setting(
        32, "Training examples in a batch of one worker.", basic=True, lower=1, upper=LARGEST_BATCH
    )
    gradient_accumulation_steps: int = setting(
        1,
        "Batches of each worker whose gradients are accumulated in one step, to train with larger "
        "batches than fit in memory.",
        lower=1,
        upper=LARGEST_BATCH,
    )
    gradient_checkpointing: bool = setting(
        False,
        "Recompute each layer in the backward pass instead of keeping it in memory. Larger models "
        "and batches fit; a step takes about a third more time. The results are the same except "
        "for rounding.",
        affects=Affects.JOB,
    )
    remove_padding: bool = setting(
        True,
        "Remove padding from the input of all layers except attention. This is faster. The results "
        "are the same except for rounding and the masks of dropout. Not used on the HPU.",
    )
    predict_batch_size: int = setting(
        8, "Features in a batch in prediction.", affects=Affects.JOB, lower=1, upper=LARGEST_BATCH
    )


class ScheduleSettings(Settings, theme=TRAINING, affects=Affects.WEIGHTS):
    """Length, learning rate and optimizer of a training."""

    learning_rate: float = setting(5e-05, "Peak learning rate.", basic=True, lower=0.0)
    num_train_epochs: float = setting(
        2.0, "Number of passes over the training examples.", basic=True, lower=0.0, upper=1e9
    )
    train_steps: int = setting(
        -1, "Number of training steps; if positive, it overrides --num_train_epochs.", basic=True
    )
    lr_schedule: str = setting(
        "linear",
        "Learning rate after the warm-up: falls linearly to 0, or stays constant.",
        choices=SCHEDULES,
    )
    warmup_proportion: float = setting(
        0.1,
        "Fraction of the training steps in which the learning rate rises linearly; 0.1 is 10%.",
        lower=0.0,
        upper=1.0,
    )
    scale_learning_rate: bool = setting(False, "Multiply --learning_rate by the number of workers.")
    seed: int = setting(
        12345, "Seed for the initial weights, dropout and the order of the data.", lower=0
    )
    deterministic_run: bool = setting(
        False,
        "Make the run reproducible bit for bit: no dropout, and only operations that are "
        "deterministic on the device.",
    )
    optimizer: str = setting(
        "adamw",
        "Optimizer of the weights. adamw has no bias correction, as in the reference; "
        "adamw_corrected has it, as in PyTorch, and is steadier on small data.",
        choices=OPTIMIZERS,
    )
    adam_epsilon: float = setting(
        EPSILON,
        "Epsilon that the optimizer adds to the square root of the second moment.",
        lower=1e-20,
    )
    weight_decay: float = setting(
        WEIGHT_DECAY,
        "Weight decay, as a fraction of the learning rate. Biases and layer norms do not decay.",
        lower=0.0,
    )


class CheckpointSettings(Settings, theme=CHECKPOINTS):
    """Intervals of checkpoints and log lines, and the scoring of checkpoints."""

    save_checkpoints_steps: int = setting(5000, "Number of steps between checkpoints.", lower=1)
    save_checkpoints_minutes: float = setting(
        30.0,
        "Longest time between checkpoints, in minutes; 0 for no limit. The checkpoints that this "
        "limit adds are only for resuming; each is removed when a newer one exists.",
        lower=0.0,
    )
    save_summary_steps: int = setting(
        1, "Number of steps between points of the TensorBoard curves.", lower=1
    )
    log_steps: int = setting(
        100,
        "Number of steps between log lines. There is at least one line every 30 seconds.",
        lower=1,
    )
    evaluate_while_training: bool = setting(
        False, "Score each checkpoint as soon as it is written, instead of after the training."
    )
    patience: int = setting(
        0,
        "Stop after this number of checkpoints without a better score; 0 to train to the last "
        "step. Implies --evaluate_while_training.",
        affects=Affects.WEIGHTS,
        lower=0,
    )
    track: str = setting(
        NO_TRACKER,
        "Tracker that gets the settings and metrics of the run. For mlflow, the environment "
        "variable MLFLOW_TRACKING_URI names the server or the store, and MLFLOW_EXPERIMENT_NAME "
        "the experiment.",
        choices=(NO_TRACKER, MLFLOW),
    )
    # 0 keeps all checkpoints. Programs that keep only some derive from `KeptCheckpoints`.
    keep_checkpoint_max: int = 0


class DeviceSettings(Settings, theme=DEVICE):
    """The device to compute on, and the cooperation of workers."""

    device: str = setting(
        "auto",
        "Device to compute on; auto picks an HPU (Gaudi) if available, then a GPU, then the CPU.",
        basic=True,
        choices=DEVICES,
    )
    precision: str | None = setting(
        None,
        "Type in which the encoder computes; weights, optimizer and loss stay float32. float16 is "
        "for GPUs without bfloat16, and scales the loss. Default: bfloat16 if TF_BF16_CONVERSION "
        "is set, otherwise float32.",
        affects=Affects.WEIGHTS | Affects.SCORES,
        basic=True,
        choices=PRECISIONS,
    )
    engine: str = setting(
        AUTO,
        f"{ENGINE_HELP} Training always uses TensorFlow.",
        affects=Affects.SCORES,
        choices=ENGINES,
    )
    use_horovod: bool = setting(
        False,
        "Train together with the other processes that mpirun has started. Example: mpirun -np 8 "
        "python -m albert squad ... --use_horovod=true",
        basic=True,
    )
    stall_seconds: float = setting(
        300.0,
        "Seconds to wait for a worker that hangs or is stopped. After that, the job ends with an "
        "error that names the worker; 0 to wait without a limit.",
        lower=0.0,
    )
    allreduce_dtype: str = setting(
        "float32",
        "Data type in which workers send gradients; bfloat16 works only on the HPU.",
        affects=Affects.WEIGHTS,
        choices=("float32", "float16", "bfloat16"),
    )
    elastic_resume: bool = setting(
        False,
        "Allow resuming the run in --output_dir with another number of workers or another "
        "--train_batch_size. --gradient_accumulation_steps is adjusted so that the global batch "
        "size stays the same; if that is not possible, the run ends with an error.",
    )
    shard_optimizer: str = setting(
        "none",
        "With --use_horovod: shard the optimizer's state over the workers (state), or also the "
        "accumulated gradients (gradients). With gradients, workers send them after every batch. "
        "The results are the same except for rounding.",
        affects=Affects.JOB,
        choices=("none", "state", "gradients"),
    )
    use_einsum: bool = setting(
        False,
        "Compute dense layers with tf.einsum instead of tf.matmul. The results are the same.",
        affects=Affects.WEIGHTS,
    )
    enable_scoped_allocator: bool = setting(
        False,
        "With habana-horovod: let TensorFlow place the gradients of one all-reduce next to each "
        "other in memory.",
    )


class IgnoredSettings(Settings, theme=IGNORED):
    """Flags of the reference that are accepted so that its commands work."""

    use_tpu: bool = setting(False, "Must be false; TPUs are not supported.")
    tpu_name: str | None = setting(None, _FOR_TPU)
    tpu_zone: str | None = setting(None, _FOR_TPU)
    gcp_project: str | None = setting(None, _FOR_TPU)
    master: str | None = setting(None, _FOR_TPU)
    num_tpu_cores: int = setting(8, _FOR_TPU)
    iterations_per_loop: int = setting(1000, _FOR_TPU)
    albert_hub_module_handle: str | None = setting(
        None, "Not supported; pass --init_checkpoint instead."
    )


class RunSettings(
    PathSettings,
    BatchSettings,
    ScheduleSettings,
    CheckpointSettings,
    DeviceSettings,
    IgnoredSettings,
):
    """The settings of every run; tasks add fields and may change defaults.

    Attributes:
      length_buckets: see `TextSettings`; None if all batches have the same length.
      from_scratch: see `TextSettings`; None if a run need not start from a pretrained model.
      spm_model_file, vocab_file: the file of the tokenizer; the first one takes precedence.
      do_eval: whether to score every checkpoint; none is removed before it is scored.
      feature_files: the default names of feature files in --output_dir, by the flags that name the
        files; "" for a flag that names their folder.
      head: the head of `transformers` for this task, see `transformers_names`; "" without one.
      described: the settings that inference needs, in addition to those of all tasks; it reads them
        from `model.json`, whose bounds are under `OWN` in `checkpoints/folder_contract.py`.
    """

    feature_files: ClassVar[Mapping[str, str]] = {}
    head: ClassVar[str] = ""
    described: ClassVar[Sequence[str]] = ()

    max_seq_length: int = 512
    length_buckets: tuple[int, ...] | None = None
    from_scratch: bool | None = None
    spm_model_file: str | None = None
    vocab_file: str | None = None
    do_lower_case: bool = True
    do_train: bool = True
    do_eval: bool = False
    do_predict: bool = False

    def runs(self) -> Mapping[str, RunSettings]:
        """Returns each run's settings by name, "" for one; raises a `FlagError` if invalid."""
        return {"": self}

    def with_data(self: AnyRunSettings, path: str) -> AnyRunSettings:
        """Returns the settings of a training on own data: a file, or a folder with its splits.

        Raises a `FlagError` if the task has no own data, or a flag contradicts the path.
        """
        raise FlagError(f"{path!r} is not a flag; flags are --name=value, see --help")

    def _implying(self: AnyRunSettings, path: str, **values: Any) -> AnyRunSettings:
        """Returns the settings with values that own data implies, unless the user set them."""
        if not os.path.exists(path):
            raise FlagError(
                f"{path!r} is neither a file nor a folder with data; flags are --name=value"
            )
        for name in values.keys() & self.given:
            if self.flags()[name].is_path:
                raise FlagError(f"{path} and --{name} are two inputs; remove one of them")
        name = os.path.basename(os.path.abspath(path))
        name = name if os.path.isdir(path) else os.path.splitext(name)[0]
        values = {"output_dir": os.path.join("out", name), "recipe": AUTO_RECIPE, **values}
        values = {name: values[name] for name in values.keys() - self.given}
        return self.replaced(given=self.given | values.keys(), **values)

    def head_defaults(self, about: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the default values that a description lacks, for a head of `transformers`."""
        described = {name: getattr(self, name) for name in self.described}
        return {**described, "max_seq_length": min(about["max_seq_length"], _WINDOW)}

    def feature_path(self, flag: str) -> str:
        """Returns the value of a flag of `feature_files`, or its default."""
        return getattr(self, flag) or os.path.join(self.output_dir, self.feature_files[flag])


class KeptCheckpoints(Settings, theme=CHECKPOINTS):
    """The setting of programs that, like the reference, do not keep all checkpoints."""

    keep_checkpoint_max: int = setting(
        5,
        "Number of the latest checkpoints to keep, in addition to the best one; 0 to keep all. "
        "With --do_eval, checkpoints are scored before they are removed.",
        lower=0,
    )
