"""The device of this process: an HPU (Gaudi), a GPU or the CPU, and why."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

import tensorflow as tf2
import tensorflow.compat.v1 as tf

from runtime import distributed, habana
from runtime.errors import UserError

KINDS = ("auto", "hpu", "gpu", "cpu")


class Device(NamedTuple):
    """What this process computes on ("hpu", "gpu" or "cpu"), and why that."""

    kind: str
    reason: str


_device = Device("cpu", "nothing else was chosen")


def find(wanted: str) -> Device:
    """The device for a value of --device; "auto" takes the first of HPU, GPU and CPU there is.

    Raises:
      UserError: what was asked for is not there; names what is missing.
    """
    if wanted == "cpu":
        return Device("cpu", "--device=cpu")
    no_hpu = habana.why_not() if wanted in ("auto", "hpu") else None
    if wanted in ("auto", "hpu") and no_hpu is None:
        return Device("hpu", f"{habana.PACKAGE} and {habana.count_cards()} cards are there")
    if wanted == "hpu":
        raise UserError(f"--device=hpu: {no_hpu}")
    gpus = len(tf2.config.list_physical_devices("GPU"))
    if gpus:
        return Device("gpu", f"TensorFlow sees {gpus}" + (f"; no HPU: {no_hpu}" if no_hpu else ""))
    if wanted == "gpu":
        raise UserError(
            "--device=gpu: TensorFlow sees no GPU; install requirements-gpu.txt and NVIDIA's "
            "driver, or choose another device"
        )
    return Device("cpu", f"no HPU: {no_hpu}; TensorFlow sees no GPU")


def choose(wanted: str) -> None:
    """Makes `find(wanted)` the device of this process and logs it; nothing is loaded yet."""
    global _device
    _device = find(wanted)
    tf.logging.info("Device: %s (%s)", _device.kind.upper(), _device.reason)


def prepare() -> None:
    """Loads what the device needs, before any graph is built; the card is that of the local rank.

    Raises:
      UserError: it does not load, or this host has more workers than cards.
    """
    if is_hpu():
        workers, cards = distributed.local_size(), habana.count_cards()
        if workers > cards:
            raise UserError(
                f"{workers} workers on this host, which has {cards} Gaudi cards; each needs one"
            )
        # The bridge takes the card of this rank from the variables that mpirun sets.
        habana.load()
        return
    gpus = tf2.config.list_physical_devices("GPU")
    own = gpus[distributed.local_rank() % len(gpus)] if gpus and _device.kind == "gpu" else None
    tf2.config.set_visible_devices([own] if own else [], "GPU")
    if own:
        tf2.config.experimental.set_memory_growth(own, True)


@contextlib.contextmanager
def as_cpu() -> Iterator[None]:
    """Builds graphs as for the CPU meanwhile, for use elsewhere."""
    global _device
    _device, before = Device("cpu", "for another machine"), _device
    try:
        yield
    finally:
        _device = before


def chosen() -> Device:
    """The device of this process, and why that."""
    return _device


def kind() -> str:
    """ "hpu", "gpu" or "cpu"."""
    return _device.kind


def is_hpu() -> bool:
    """Whether this process computes on a Gaudi card, on which every shape is to be static."""
    return _device.kind == "hpu"
