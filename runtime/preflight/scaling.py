"""What one worker's step and the network give for more workers; `make bench-scaling` has it too.

Nothing is overlapped, and every worker's batch has the same size. A ring all-reduce of N workers
sends 2 (N - 1) / N times the gradients' bytes through every link, in 2 (N - 1) turns
(https://andrew.gibiansky.com/blog/machine-learning/baidu-allreduce/).
"""

from __future__ import annotations

from typing import NamedTuple


class Link(NamedTuple):
    """The connection between two workers.

    Attributes:
      gbit: Gbit/s.
      microseconds: latency.
    """

    gbit: float = 100.0
    microseconds: float = 20.0

    def __str__(self) -> str:
        return f"links of {self.gbit:g} Gbit/s with {self.microseconds:g} us latency"


class Scaled(NamedTuple):
    """A step of several workers.

    Attributes:
      allreduce: seconds in which the gradients are averaged.
      step: seconds in all.
      efficiency: speed, as a part of what the workers would have one by one.
    """

    allreduce: float
    step: float
    efficiency: float


def scale(step: float, gradient_bytes: float, workers: int, link: Link) -> Scaled:
    """Returns a step of several workers.

    Args:
      step: seconds that it takes one worker, without any all-reduce.
      gradient_bytes: what is averaged in a step.
      workers: how many.
      link: between two of them.
    """
    sent = 2 * (workers - 1) / workers * gradient_bytes
    latency = 2 * (workers - 1) * link.microseconds / 1e6
    allreduce = sent * 8 / (link.gbit * 1e9) + latency
    return Scaled(allreduce, step + allreduce, step / (step + allreduce))
