"""Work shared out to processes of this machine, with results in order."""

from __future__ import annotations

import collections
import concurrent.futures
import ctypes
import gc
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from albert.core.errors import UserError

Task = TypeVar("Task")
Result = TypeVar("Result")

# Tasks a worker that wait or are done and not fetched yet; bounds the memory.
_AHEAD = 3
# From Linux's <sys/prctl.h>: the signal that this process gets when its parent ends.
_PR_SET_PDEATHSIG = 1
# What the worker processes call; they have it, closures and all, from the process they fork from.
_function: Callable


def ordered_map(
    function: Callable[[Task], Result], tasks: Sequence[Task], workers: int
) -> Iterator[Result]:
    """Yields `function(task)` for every task, in order.

    With more than one worker and task the calls happen in forked processes. Tasks and results are
    sent, so they should be small; what the function refers to is not.

    Raises:
      UserError: a worker process died, as it does when memory runs out.
    """
    workers = min(workers, len(tasks))
    if workers < 2:
        yield from map(function, tasks)
        return
    # A session of TensorFlow that was left open, and that a child would collect, ends the child.
    gc.collect()
    global _function
    _function = function
    context = multiprocessing.get_context("fork")
    pool = concurrent.futures.ProcessPoolExecutor(
        workers, context, initializer=_begin, initargs=(os.getpid(),)
    )
    pending: collections.deque[concurrent.futures.Future] = collections.deque()
    try:
        for task in tasks:
            pending.append(pool.submit(_call, task))
            if len(pending) >= _AHEAD * workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    except concurrent.futures.process.BrokenProcessPool as e:
        raise UserError(
            "a worker process died, perhaps because memory ran out; try --preprocess_workers=1"
        ) from e
    except BaseException:
        # Nobody waits for what is in the making: workers end with this process.
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()


def _begin(parent: int) -> None:
    """Prepares a worker process before its first task."""
    # What a terminal sends to all its processes is the parent's to deal with.
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # Nobody would end them if the parent were killed: they wait for tasks that never come.
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _call(task: Task) -> Any:
    return _function(task)
