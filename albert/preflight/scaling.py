"""A model of the step time of many workers, from one worker's step and the network.

The model assumes that communication and computation do not overlap, and that all workers have
batches of the same size. A ring all-reduce of N workers sends 2 (N - 1) / N times the gradients'
bytes through every link, in 2 (N - 1) turns
(https://andrew.gibiansky.com/blog/machine-learning/baidu-allreduce/). It consists of a
reduce-scatter and an all-gather, each with half of the bytes and turns. With `--shard_optimizer`,
these are separate operations.
"""

from __future__ import annotations

from typing import NamedTuple

from albert.preflight.settings import GBIT


class Link(NamedTuple):
    """The connection between two workers: bandwidth in Gbit/s, latency in microseconds."""

    gbit: float = GBIT
    microseconds: float = 20.0

    def __str__(self) -> str:
        return f"links of {self.gbit:g} Gbit/s with {self.microseconds:g} us latency"


def step_traffic(
    values: int, workers: int, value_bytes: int = 4, shard: str = "none", batches: int = 1
) -> tuple[float, int]:
    """Returns the bytes that each worker sends in a step, and the number of sequential turns.

    The `values` of its gradients are sent with `value_bytes` each, and accumulated over `batches`;
    `shard` is the value of --shard_optimizer.
    """
    times = batches if shard == "gradients" else 1
    gathered = value_bytes if shard == "none" else 4
    part = (workers - 1) / workers * values
    return part * (times * value_bytes + gathered), (times + 1) * (workers - 1)


class ScaledStep(NamedTuple):
    """The seconds of an all-reduce of gradients and weights, and of the step of several workers.

    `efficiency` is the speed as a fraction of that of workers that do not communicate.
    """

    allreduce: float
    step: float
    efficiency: float


def scale(step: float, sent: tuple[float, int], link: Link) -> ScaledStep:
    """Returns the time of a step of `step` seconds on one worker and of `sent`, its traffic."""
    size, turns = sent
    allreduce = size * 8 / (link.gbit * 1e9) + turns * link.microseconds / 1e6
    return ScaledStep(allreduce, step + allreduce, step / (step + allreduce))
