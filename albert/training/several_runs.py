"""Several runs in one process, because a process can join its MPI job only once."""

from __future__ import annotations

from collections.abc import Iterator

import tensorflow.compat.v1 as tf

from albert.training import job
from albert.training.run import Run


def in_sequence(prepared: dict[str, Run], stall_seconds: float) -> Iterator[tuple[str, Run]]:
    """Connects the workers, then yields the runs by name, each to be finished before the next.

    As in a single run, everything that may fork comes before that: all runs must be prepared.

    Args:
      prepared: the runs, which are removed from it one by one, because the data of a finished run
        only take memory.
      stall_seconds: see `job.connect`.

    Raises:
      UserError: see `job.connect`.
    """
    facts = {
        f"{name}, {fact}": v for name, run in prepared.items() for fact, v in run.facts.items()
    }
    job.connect(facts, stall_seconds)
    names = list(prepared)
    for number, name in enumerate(names, start=1):
        tf.logging.info("%s: run %d of %d", name, number, len(names))
        yield name, prepared.pop(name)
