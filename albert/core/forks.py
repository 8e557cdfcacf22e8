"""Processes in which TensorFlow runs: one that is forked from another lacks its threads."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from albert.core.errors import UserError, reporting
from albert.core.text import first_line

Result = TypeVar("Result")
_running_in: set[int] = set()


def check_not_forked() -> None:
    """Remembers this process, in which TensorFlow is about to run, unless there is one already.

    Raises a `UserError` if this process was forked from that one: TensorFlow and OpenVINO would
    wait forever for their threads.
    """
    _running_in.update(() if _running_in else (os.getpid(),))
    if os.getpid() not in _running_in:
        raise UserError(
            "this process was forked from one in which TensorFlow has run, whose threads it lacks: "
            "start processes with multiprocessing.get_context('spawn')"
        )


def in_new_process(what: str, work: Callable[..., Result], *arguments: object) -> Result:
    """Returns the result of `work` with these arguments in a process that has its own TensorFlow.

    Raises its `UserError`, or one that begins with `what` if TensorFlow fails or the process ends.
    """
    spawn = multiprocessing.get_context("spawn")
    with reporting("/dev/shm cannot be written"):
        executor = ProcessPoolExecutor(1, mp_context=spawn)
    with executor as pool:
        try:
            return pool.submit(run_for_another, what, work, *arguments).result()
        except BrokenProcessPool as e:
            raise UserError(f"the process with {what} has crashed; see above") from e


def run_for_another(what: str, work: Callable[..., Result], *arguments: object) -> Result:
    """Returns the result of `work` in this process; raises as `in_new_process`."""
    import tensorflow as tf2

    try:
        return work(*arguments)
    # Such an error cannot go to another process, because it has an operation of this one.
    except tf2.errors.OpError as e:
        raise UserError(f"{what}: {first_line(e)}") from None
