"""The memory in use: of the host, and of a card of which TensorFlow cannot tell."""

import resource
import sys
import types

import pytest
import tensorflow as tf

from albert.devices import memory_use


def test_peak_host_memory_is_the_kernels_figure(monkeypatch):
    with open("/proc/self/status", encoding="ascii") as file:
        kilobytes = next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))
    assert memory_use.peak_host_memory() == pytest.approx(kilobytes * 1024, rel=0.01)
    # On macOS, the size is in bytes.
    usage = types.SimpleNamespace(ru_maxrss=5_000_000)
    monkeypatch.setattr(resource, "getrusage", lambda who: usage)
    monkeypatch.setattr(sys, "platform", "darwin")
    assert memory_use.peak_host_memory() == 5_000_000


@pytest.mark.parametrize("kind", ["cpu", "gpu", "hpu"])
def test_unknown_memory_of_a_card_is_omitted(on_device, kind):
    """TensorFlow itself raises the error here, since this machine has no card."""
    on_device(kind)
    if kind != "cpu":
        with pytest.raises((ValueError, RuntimeError, tf.errors.OpError)):
            tf.config.experimental.get_memory_info(f"{kind.upper()}:0")
    assert memory_use.device_memory() is None
    assert list(memory_use.table()) == ["peak host memory"]
