"""The memory that this process uses, on its card and on the host."""

from __future__ import annotations

import contextlib
import re
import resource
import sys

import tensorflow as tf2

from albert.devices import device, host


def peak_host_memory() -> int:
    """Returns the peak resident memory of this process, in bytes."""
    # Linux counts in `ru_maxrss` the process that started this one.
    if peak := re.search(r"^VmHWM:\s+(\d+) kB$", host.read("/proc/self/status"), re.MULTILINE):
        return int(peak[1]) * 1024
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size if sys.platform == "darwin" else size * 1024


def curves() -> dict[str, float]:
    """Returns the values in GB of 10^9 bytes, by the name of their curve.

    Those of the card, if it is known, are what tensors occupy now, and at most since this process
    began. TensorFlow's allocator reports them, without what libraries reserve; see `habana.load`.
    """
    values = {}
    if device.kind() != "cpu":
        with contextlib.suppress(ValueError, RuntimeError, tf2.errors.OpError):
            # A worker sees only its own card.
            info = tf2.config.experimental.get_memory_info(f"{device.kind().upper()}:0")
            values = {"device_memory_gb": info["current"], "peak_device_memory_gb": info["peak"]}
    values["peak_host_memory_gb"] = peak_host_memory()
    return {name: size / 1e9 for name, size in values.items()}


def summary() -> str:
    """Returns a description for a log line."""
    sizes = ((name.removesuffix("_gb"), size) for name, size in curves().items())
    return ", ".join(f"{name.replace('_', ' ')} {size:.2f} GB" for name, size in sizes)
