"""Chooses the device of this process: an HPU (Gaudi), a GPU or the CPU."""

from __future__ import annotations

import contextlib
import glob
import os
from collections.abc import Iterator
from typing import NamedTuple

import tensorflow as tf2
import tensorflow.compat.v1 as tf

from albert.core.errors import UserError
from albert.devices import habana
from albert.distributed import collectives

_NVIDIA_DEVICE_FILES = "/dev/nvidia[0-9]*"
_INSIST = "pass --device=cpu to use the CPU"


class Device(NamedTuple):
    """The device of this process ("hpu", "gpu" or "cpu"), and the reason for the choice."""

    kind: str
    reason: str


_device = Device("cpu", "nothing else was chosen")
# The number of this process's GPU among those that TensorFlow sees.
_own_gpu: int | None = None


def find(requested: str) -> Device:
    """Returns the device for a value of --device; "auto" takes the first of HPU, GPU and CPU.

    Raises a `UserError` if it is missing, or if "auto" finds cards that cannot be used.
    """
    if requested == "cpu":
        return Device("cpu", "--device=cpu")
    no_hpu = habana.why_unavailable() if requested in ("auto", "hpu") else None
    if requested in ("auto", "hpu") and no_hpu is None:
        return Device("hpu", f"found {habana.PACKAGE} and {habana.count_cards()} cards")
    if requested == "hpu":
        raise UserError(f"--device=hpu: {no_hpu}")
    if requested == "auto" and habana.count_cards():
        raise UserError(
            f"--device=auto: found {habana.count_cards()} Gaudi cards that cannot be used: "
            f"{no_hpu}; {_INSIST}"
        )
    gpus = len(tf2.config.list_physical_devices("GPU"))
    if gpus:
        return Device("gpu", f"TensorFlow sees {gpus}")
    cards = count_nvidia_cards()
    if requested == "gpu":
        raise UserError(
            f"--device=gpu: TensorFlow sees no GPU: {_why_no_gpu(cards)}; or choose another device"
        )
    if cards:
        raise UserError(
            f"--device=auto: found {cards} NVIDIA cards that cannot be used: "
            f"{_why_no_gpu(cards)}; {_INSIST}"
        )
    return Device("cpu", "no Gaudi card, no GPU found")


def _why_no_gpu(cards: int) -> str:
    """Returns why TensorFlow sees none of this machine's NVIDIA cards, and what to do."""
    build, version = tf2.sysconfig.get_build_info(), tf2.__version__
    if build.get("is_rocm_build"):
        return f"TensorFlow {version} is built for AMD cards; check that `rocminfo` lists one"
    cuda = build.get("cuda_version")
    if not cuda:
        return f"TensorFlow {version} is built for the CPU; install requirements-gpu.txt"
    if not cards:
        return "this machine or container has no NVIDIA card; see docs/clusters.md"
    return (
        f"NVIDIA's driver is too old for CUDA {cuda}, or the libraries of CUDA {cuda} that "
        f"TensorFlow {version} needs do not load; compare the driver in `nvidia-smi`, install "
        "requirements-gpu.txt, and see TensorFlow's messages above"
    )


def count_nvidia_cards() -> int:
    """Returns the number of NVIDIA cards that this process may open; 0 if the user hid them.

    The driver's files in /proc do not serve for this: in a container they also list other cards.
    """
    if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return 0
    return sum(os.access(file, os.R_OK | os.W_OK) for file in glob.glob(_NVIDIA_DEVICE_FILES))


def choose(requested: str) -> None:
    """Makes `find(wanted)` the device of this process and logs it, without loading anything."""
    global _device
    _device = find(requested)
    tf.logging.info("Device: %s (%s)", _device.kind.upper(), _device.reason)


def prepare() -> None:
    """Loads the device's libraries and selects the card of the local rank, before any graph.

    Raises a `UserError` if a library does not load, or this host has more workers than cards.
    """
    if is_hpu():
        workers, cards = collectives.local_size(), habana.count_cards()
        if workers > cards:
            raise UserError(
                f"{workers} workers on this host, which has {cards} Gaudi cards; each needs one"
            )
        # The bridge takes the card of this rank from the variables that mpirun sets.
        habana.load()
        return
    global _own_gpu
    gpus = tf2.config.list_physical_devices("GPU") if _device.kind == "gpu" else []
    # The settings of `tf.config` are for sessions without options.
    if not gpus:
        _own_gpu = None
        tf2.config.set_visible_devices([], "GPU")
        return
    _own_gpu = collectives.local_rank() % len(gpus)
    tf2.config.set_visible_devices([gpus[_own_gpu]], "GPU")
    tf2.config.experimental.set_memory_growth(gpus[_own_gpu], True)


def session_config() -> tf.ConfigProto:
    """Returns the options of a session that uses only this process's device.

    Without them, a session with other options would use all GPUs and take all of their memory.
    """
    config = tf.ConfigProto(allow_soft_placement=True)
    # As in an estimator's own options.
    rewrites = config.graph_options.rewrite_options
    rewrites.meta_optimizer_iterations = type(rewrites).ONE
    if _own_gpu is None:
        config.device_count["GPU"] = 0
    else:
        config.gpu_options.visible_device_list = str(_own_gpu)
        config.gpu_options.allow_growth = True
    return config


@contextlib.contextmanager
def as_cpu() -> Iterator[None]:
    """Builds graphs for the CPU in the `with` block, for use on other machines."""
    global _device
    _device, before = Device("cpu", "for another machine"), _device
    try:
        yield
    finally:
        _device = before


def chosen() -> Device:
    """Returns the device of this process, with the reason for the choice."""
    return _device


def kind() -> str:
    """Returns "hpu", "gpu" or "cpu"."""
    return _device.kind


def has_onednn() -> bool:
    """Returns whether this process computes on the CPU with oneDNN."""
    return _device.kind == "cpu" and os.environ.get("TF_ENABLE_ONEDNN_OPTS") != "0"


def is_hpu() -> bool:
    """Returns whether this process computes on a Gaudi card, which needs static shapes."""
    return _device.kind == "hpu"
