"""What one worker's step gives for more workers, by hand."""

from __future__ import annotations

import pytest

from runtime.preflight.scaling import Link, scale, sent_in_a_step


def test_two_workers_send_the_gradients_once():
    """1 GB through 8 Gbit/s is one second; two turns of 500 us are one ms."""
    scaled = scale(3.0, sent_in_a_step(250_000_000, 2), Link(gbit=8.0, microseconds=500.0))
    assert scaled.allreduce == pytest.approx(1.001)
    assert scaled.step == pytest.approx(4.001)
    assert scaled.efficiency == pytest.approx(3 / 4.001)


@pytest.mark.parametrize(("workers", "times"), [(1, 0), (4, 1.5), (8, 1.75), (64, 1.96875)])
def test_more_workers_send_less_than_twice(workers, times):
    """200 MB, 10 Gbit/s: 0.16 s for what the gradients are once."""
    scaled = scale(0.16, sent_in_a_step(50_000_000, workers), Link(10.0, microseconds=0.0))
    assert scaled.allreduce == pytest.approx(0.16 * times)
    assert scaled.efficiency == pytest.approx(1 / (1 + times))


@pytest.mark.parametrize(
    ("shard", "batches", "wire", "expected", "turns"),
    [
        ("none", 3, 2, 0.75 * (2 + 2), 6),
        ("state", 3, 4, 0.75 * (4 + 4), 6),
        ("state", 3, 2, 0.75 * (2 + 4), 6),
        ("gradients", 1, 4, 0.75 * (4 + 4), 6),
        ("gradients", 3, 2, 0.75 * (3 * 2 + 4), 12),
    ],
)
def test_what_four_workers_send(shard, batches, wire, expected, turns):
    """Weights are gathered in float32, whatever the gradients are sent as."""
    assert sent_in_a_step(1000, 4, wire, shard, batches) == (1000 * expected, turns)


def test_a_link_says_what_it_is():
    assert str(Link()) == "links of 100 Gbit/s with 20 us latency"
    assert scale(1.0, sent_in_a_step(0, 64), Link()).allreduce == pytest.approx(126 * 20e-6)
