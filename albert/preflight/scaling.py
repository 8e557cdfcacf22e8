"""A model of the step time of many workers, from one worker's step and the network.

Nothing is overlapped, and every worker's batch has the same size. A ring all-reduce of N workers
sends 2 (N - 1) / N times the gradients' bytes through every link, in 2 (N - 1) turns
(https://andrew.gibiansky.com/blog/machine-learning/baidu-allreduce/). Half of both is its first
part, the reduce-scatter, and half its second, the all-gather, which `--shard_optimizer` has apart.
"""

from __future__ import annotations

from typing import NamedTuple

from albert.preflight import GBIT


class Link(NamedTuple):
    """The connection between two workers.

    Attributes:
      gbit: Gbit/s.
      microseconds: latency.
    """

    gbit: float = GBIT
    microseconds: float = 20.0

    def __str__(self) -> str:
        return f"links of {self.gbit:g} Gbit/s with {self.microseconds:g} us latency"


class Traffic(NamedTuple):
    """What every worker sends in a step.

    Attributes:
      bytes: in all.
      turns: one after the other.
    """

    bytes: float
    turns: int


def step_traffic(
    values: int, workers: int, value_bytes: int = 4, shard: str = "none", batches: int = 1
) -> Traffic:
    """Returns the traffic of each worker in a step.

    Args:
      values: of the gradients, and of the weights.
      workers: how many.
      value_bytes: of a gradient's value on the way.
      shard: as --shard_optimizer.
      batches: that are accumulated.
    """
    times = batches if shard == "gradients" else 1
    gathered = value_bytes if shard == "none" else 4
    part = (workers - 1) / workers * values
    return Traffic(part * (times * value_bytes + gathered), (times + 1) * (workers - 1))


class ScaledStep(NamedTuple):
    """A step of several workers.

    Attributes:
      allreduce: seconds in which gradients are averaged, and updated weights gathered.
      step: seconds in all.
      efficiency: speed, as a part of what the workers would have one by one.
    """

    allreduce: float
    step: float
    efficiency: float


def scale(step: float, sent: Traffic, link: Link) -> ScaledStep:
    """Returns a step of several workers.

    Args:
      step: seconds that it takes one worker, without sending anything.
      sent: by each.
      link: between two of them.
    """
    allreduce = sent.bytes * 8 / (link.gbit * 1e9) + sent.turns * link.microseconds / 1e6
    return ScaledStep(allreduce, step + allreduce, step / (step + allreduce))
