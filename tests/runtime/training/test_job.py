"""Which flags go with the device and the workers."""

from __future__ import annotations

import types

import pytest

from runtime.devices import device
from runtime.devices.device import Device
from runtime.errors import FlagError
from runtime.training import job


@pytest.mark.parametrize(
    ("kind", "wire", "shard", "fault"),
    [
        ("cpu", "float16", "state", None),
        ("cpu", "bfloat16", "none", "works on the HPU only"),
        ("hpu", "bfloat16", "gradients", None),
        ("hpu", "float32", "state", None),
        ("hpu", "float16", "none", None),
        ("hpu", "float16", "state", "habana-horovod's reduce-scatter has no float16 there"),
    ],
)
def test_the_types_that_horovod_sends(monkeypatch, kind, wire, shard, fault):
    monkeypatch.setattr(device, "_device", Device(kind, "for the test"))
    settings = types.SimpleNamespace(allreduce_dtype=wire, shard_optimizer=shard, use_horovod=True)
    if fault is None:
        job._check_workers(settings)
        return
    with pytest.raises(FlagError, match=fault):
        job._check_workers(settings)
