"""Starts a worker: checks the flags that all tasks share, prepares the device, joins the job."""

from __future__ import annotations

import os

import tensorflow as tf2
import tensorflow.compat.v1 as tf

from albert.core import signals
from albert.core.errors import FlagError
from albert.devices import device, host, machine
from albert.distributed import collectives, exchange, heartbeats, launcher
from albert.precision import configuration
from albert.prediction.engine import check_engine
from albert.settings.run_settings import RunSettings
from albert.training import tracking
from albert.training.task import Task, precision_config

# TensorFlow takes a checkpoint's path with one of these for a pattern, and may not find its files.
_WILDCARDS = frozenset("*?[\\")
# NVIDIA's Ampere is the first generation that multiplies in bfloat16.
_BFLOAT16_CAPABILITY = (8, 0)


def begin_job(settings: RunSettings) -> None:
    """Checks the flags that all programs share, and makes this process a worker of its job.

    Raises a `FlagError` if the flags ask for a feature that this project does not support, and a
    `UserError` if Horovod or the device is missing, or the environment's bfloat16 list is invalid.
    """
    _check(settings)
    signals.resume_without("--overwrite_output_dir" if settings.overwrite_output_dir else "")
    device.choose(settings.device)
    _check_workers(settings)
    collectives.join_job(settings.use_horovod)
    tf.logging.info("Processor: %s", machine.find_processor())
    host.limit_threads()
    # Report a faulty configuration before any work.
    precision = configuration.chosen(settings.precision)
    if settings.precision:
        check_precision(settings.precision)
    name = precision.dtype.name if precision else "float32"
    check_onednn(name)
    check_engine(settings.engine, name)


def _check(settings: RunSettings) -> None:
    if settings.use_tpu:
        raise FlagError(
            "--use_tpu=true: this project does not run on TPU; remove the flag to run on HPU, "
            "GPU or CPU"
        )
    if settings.albert_hub_module_handle:
        raise FlagError(
            "--albert_hub_module_handle is not supported; download the model with "
            "`albert download model` and give --init_checkpoint, "
            "--albert_config_file and --spm_model_file"
        )
    if settings.from_scratch and settings.init_checkpoint:
        raise FlagError("--from_scratch and --init_checkpoint contradict each other; remove one")
    for name in ("output_dir", "init_checkpoint", "export_dir"):
        path = getattr(settings, name)
        special = sorted(_WILDCARDS.intersection(path or ""))
        if special:
            raise FlagError(
                f"--{name} {path}: TensorFlow takes a path with {' '.join(special)} for a pattern; "
                "give a path without it, such as a symbolic link to the folder"
            )
    if launcher.is_first():
        tracking.check_installed(settings)


def _check_workers(settings: RunSettings) -> None:
    """Raises a `FlagError` for flags that Horovod does not support on the chosen device."""
    wire, shard = settings.allreduce_dtype, settings.shard_optimizer
    if wire == "bfloat16" and not device.is_hpu():
        raise FlagError(
            "--allreduce_dtype=bfloat16 works on the HPU only: Horovod has no bfloat16 for "
            "TensorFlow elsewhere; use float16 or float32"
        )
    if shard == "none":
        return
    if not settings.use_horovod:
        raise FlagError(
            f"--shard_optimizer={shard} needs several workers: start them with mpirun, "
            "and add --use_horovod=true"
        )
    if wire == "float16" and device.is_hpu():
        raise FlagError(
            f"--shard_optimizer={shard} with --allreduce_dtype=float16 does not work on the HPU: "
            "the reduce-scatter of habana-horovod has no float16; use bfloat16 or float32"
        )


def check_precision(precision: str) -> None:
    """Raises a `FlagError` if the chosen device lacks a type; warns if it only emulates the type.

    `precision` is the value of the flag: "float32", "bfloat16" or "float16".
    """
    if precision == "float16" and device.is_hpu():
        raise FlagError(
            "--precision=float16: Gaudi cards compute in bfloat16; pass --precision=bfloat16"
        )
    if precision == "bfloat16" and device.kind() == "gpu":
        gpus = tf2.config.list_physical_devices("GPU")
        own = gpus[collectives.local_rank() % len(gpus)]
        capability = tf2.config.experimental.get_device_details(own).get("compute_capability")
        if capability and capability < _BFLOAT16_CAPABILITY:
            number = ".".join(map(str, capability))
            raise FlagError(
                f"--precision=bfloat16: the GPU has compute capability {number}, and bfloat16 "
                "needs 8.0 or later; pass --precision=float16"
            )
    if precision == "float16" and device.kind() == "cpu":
        tf.logging.warning(
            "--precision=float16: most CPUs emulate float16 slowly; it is meant for GPUs"
        )


def check_onednn(precision: str) -> None:
    """Raises a `FlagError` if TensorFlow would crash in a type, chosen by flag or environment."""
    if precision != "bfloat16" or not device.has_onednn():
        return
    processor = machine.find_processor()
    # TensorFlow looks for AVX-512 itself, then ends the process when oneDNN refuses.
    if processor.limit and "AVX-512" not in (processor.instructions or ()):
        raise FlagError(
            f"--precision=bfloat16: {processor.limit} rules out the instructions that TensorFlow "
            "uses for bfloat16; unset it, or compute in float32"
        )


def configure_habana(task: Task) -> None:
    """Names the list of --precision=bfloat16 in the environment, where Gaudi's bridge reads it.

    Call this before `device.prepare`, which loads the bridge.
    """
    config = precision_config(task)
    if config and task.settings.precision and device.is_hpu():
        os.environ[configuration.VARIABLE] = config.source


def connect(facts: dict, stall_seconds: float) -> None:
    """Loads the device, waits for the other workers, and checks that all do the same run.

    Call this after all that needs no other worker: checks of files, feature files, forks. Raises a
    `UserError` if the device does not load, or another worker's facts differ.

    Args:
      facts: the contents of files and the flags that all workers must share, by name.
      stall_seconds: after this time without an answer from a worker the job ends with an error
        that names it; 0 for no limit.
    """
    device.prepare()
    collectives.connect(on_cpu=device.kind() == "cpu")
    exchange.check_equal_on_all_workers(facts)
    if collectives.size() > 1 and stall_seconds:
        heartbeats.watch_workers(stall_seconds)
