"""Curves as TensorBoard reads them."""

from __future__ import annotations

import resource

import pytest
import tensorflow.compat.v1 as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from runtime.training.curves import Curves


def test_tensorboard_reads_them(tmp_path):
    for start in (0, 2):
        curves = Curves(str(tmp_path / "new"), suffix=f".{start}")
        curves.add(start + 1, loss=1.5, learning_rate=0.25)
        curves.add(start + 2, loss=start)
        curves.close()
    assert len(list((tmp_path / "new").glob("events.out.tfevents.*"))) == 2
    found = EventAccumulator(str(tmp_path / "new")).Reload()
    losses = [(e.step, e.value) for e in found.Scalars("loss")]
    assert losses == [(1, 1.5), (2, 0), (3, 1.5), (4, 2)]
    assert [(e.step, e.value) for e in found.Scalars("learning_rate")] == [(1, 0.25), (3, 0.25)]


def test_a_disk_that_is_full_is_an_error_where_it_is_met(tmp_path):
    curves = Curves(str(tmp_path))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
    try:
        with pytest.raises(tf.errors.OpError, match="File too large"):
            for step in range(100_000):
                curves.add(step, loss=1.0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
