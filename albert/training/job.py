"""Start-up of a worker: flags that all tasks share are checked, device and workers prepared."""

from __future__ import annotations

import os
import subprocess

import tensorflow.compat.v1 as tf

from albert.bf16 import configuration
from albert.core.errors import FlagError, UserError
from albert.core.files import command
from albert.devices import device, host
from albert.distributed import collectives, heartbeats
from albert.distributed.failure import fail
from albert.settings.run_settings import RunSettings

# By these TensorFlow takes the path of a checkpoint for a pattern, and may not find its files.
_OF_PATTERNS = frozenset("*?[\\")


def start(settings: RunSettings) -> None:
    """Checks what all programs have in common, and makes this process a worker of its job.

    Raises:
      FlagError: the flags ask for what the reference has and this project has not.
      UserError: Horovod is needed and not installed, the device is not there, or the environment
        names a bfloat16 configuration that is no good.
    """
    _check(settings)
    device.choose(settings.device)
    _check_workers(settings)
    collectives.start(settings.use_horovod)
    tf.logging.info("Processor: %s", host.find_processor())
    host.limit_threads()
    # A fault of it is to show before any work.
    configuration.from_environment()


def _check(settings: RunSettings) -> None:
    if settings.use_tpu:
        raise FlagError(
            "--use_tpu=true: this project does not run on TPU; leave the flag out to run on HPU, "
            "GPU or CPU"
        )
    if settings.albert_hub_module_handle:
        raise FlagError(
            "--albert_hub_module_handle is not supported; download the model with "
            "`albert download model` and give --init_checkpoint, "
            "--albert_config_file and --spm_model_file"
        )
    if settings.from_scratch and settings.init_checkpoint:
        raise FlagError("--from_scratch and --init_checkpoint contradict each other; leave one out")
    for name in ("output_dir", "init_checkpoint", "export_dir"):
        path = getattr(settings, name)
        found = sorted(_OF_PATTERNS.intersection(path or ""))
        if found:
            raise FlagError(
                f"--{name} {path}: TensorFlow takes a path with {' '.join(found)} for a pattern of "
                "names; give one without it, such as a symbolic link to the folder"
            )


def _check_workers(settings: RunSettings) -> None:
    """Raises a `FlagError` for what Horovod cannot do, or not on the device that is chosen."""
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
            f"--shard_optimizer={shard} shares out over several workers: start them with mpirun, "
            "and add --use_horovod=true"
        )
    if wire == "float16" and device.is_hpu():
        raise FlagError(
            f"--shard_optimizer={shard} with --allreduce_dtype=float16 does not work on the HPU: "
            "habana-horovod's reduce-scatter has no float16 there; use bfloat16 or float32"
        )


def connect(facts: dict, stall_seconds: float) -> None:
    """Loads the device, waits for the other workers, and checks that they are to do the same.

    To be called when everything is prepared that can be without them: files are checked, feature
    files made, and no process is forked any more.

    Args:
      facts: what has been prepared, by name: contents of files and the flags that count.
      stall_seconds: after which a worker that does not answer is named and the job ends; 0 never.

    Raises:
      UserError: the device does not load, or another worker's facts differ.
    """
    device.prepare()
    collectives.connect(on_cpu=device.kind() == "cpu")
    collectives.check_equal_on_all_workers(facts)
    if collectives.size() > 1 and stall_seconds:
        heartbeats.start(
            stall_seconds,
            lambda worker: fail(
                f"{worker} (--stall_seconds); its process or host hangs or is stopped: start the "
                "job again to resume",
                1,
            ),
        )


def fetch_missing(settings: RunSettings) -> None:
    """Fetches the model whose folder --init_checkpoint names, with --download, if it is not there.

    The folder's name is that of a published model. Of the workers of a host one fetches it, and
    the others wait.

    Raises:
      UserError: there is no such model, or it cannot be fetched.
    """
    path = settings.init_checkpoint
    if not (settings.download and path):
        return
    # A checkpoint lies in the folder of its model, or the folder is given.
    folder = os.path.dirname(path) if ".ckpt" in os.path.basename(path) else path
    if os.path.isdir(folder):
        return
    parent, name = os.path.split(os.path.abspath(folder))
    fetching = command("download", "model", name, f"--output_dir={parent}")
    if subprocess.run(fetching).returncode:
        raise UserError(
            f"--download: {name} of --init_checkpoint {path} could not be fetched, as said above"
        )
