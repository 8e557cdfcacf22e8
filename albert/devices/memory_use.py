"""The memory that this process uses, on its card and on the host."""

from __future__ import annotations

import re
import resource
import sys
from typing import NamedTuple

import tensorflow as tf2

from albert.devices import device, host


class DeviceMemory(NamedTuple):
    """The bytes that tensors occupy on this process's card now, and at most since it began."""

    now: int
    peak: int


def device_memory() -> DeviceMemory | None:
    """Returns the memory in use on this process's card; None on the CPU or if it is unknown.

    TensorFlow's allocator reports it, without what libraries reserve; see `habana.load`.
    """
    if device.kind() == "cpu":
        return None
    try:
        # A worker sees only its own card.
        info = tf2.config.experimental.get_memory_info(f"{device.kind().upper()}:0")
    except (ValueError, RuntimeError, tf2.errors.OpError):
        return None
    return DeviceMemory(info["current"], info["peak"])


def peak_host_memory() -> int:
    """Returns the peak resident memory of this process, in bytes."""
    # Linux counts in `ru_maxrss` the process that started this one.
    if peak := re.search(r"^VmHWM:\s+(\d+) kB$", host.read("/proc/self/status"), re.MULTILINE):
        return int(peak[1]) * 1024
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size if sys.platform == "darwin" else size * 1024


def curves() -> dict[str, float]:
    """Returns the values in GB of 10^9 bytes, by the name of their curve."""
    values = {}
    if card := device_memory():
        values = {"device_memory_gb": card.now, "peak_device_memory_gb": card.peak}
    values["peak_host_memory_gb"] = peak_host_memory()
    return {name: size / 1e9 for name, size in values.items()}


def table() -> dict[str, str]:
    """Returns the rows for the statistics at the end of a part of a run."""
    sizes = ((name.removesuffix("_gb"), size) for name, size in curves().items())
    return {name.replace("_", " "): f"{size:.2f} GB" for name, size in sizes}


def summary() -> str:
    """Returns a description for a log line."""
    return ", ".join(f"{name} {size}" for name, size in table().items())
