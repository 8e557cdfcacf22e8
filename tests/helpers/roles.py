"""Roles of the test's own process: a worker of a job, or a process on another device."""

from __future__ import annotations

import pytest

from albert.devices import device
from albert.distributed import collectives


def be_worker(patch: pytest.MonkeyPatch, rank: int, size: int) -> None:
    """Makes this process a worker of a job on one host."""
    patch.setattr(collectives, "_worker", collectives.Worker(rank, size, rank, size, "mpirun"))


def be_on(patch: pytest.MonkeyPatch, kind: str) -> None:
    """Puts this process on a device: "hpu", "gpu" or "cpu"."""
    patch.setattr(device, "_device", device.Device(kind, "for the test"))
