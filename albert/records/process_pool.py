"""Distribution of work to processes on this machine, with results in order."""

from __future__ import annotations

import collections
import concurrent.futures
import gc
import multiprocessing
import operator
import os
import signal
from collections.abc import Callable, Generator, Iterator
from typing import Any, Protocol, TypeVar

from albert.core import signals
from albert.core.errors import UserError
from albert.core.log import LOG

Task = TypeVar("Task")
Item = TypeVar("Item", covariant=True)
Result = TypeVar("Result")

# Tasks per worker that may wait, or have results not fetched yet; this bounds the memory.
_AHEAD = 3
# The function that the worker processes call. They inherit it by forking, including its closure.
_function: Callable


class Countable(Protocol[Item]):
    """Items that can be counted and read, such as a list or a file that is read for every pass."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Item]: ...


def ordered_map(
    function: Callable[[Task], Result], tasks: Countable[Task] | Iterator[Task], workers: int
) -> Generator[Result, None, None]:
    """Yields `function(task)` for every task, in order.

    With more than one worker and task, the calls run in forked processes. Tasks and results are
    sent between processes, so they should be small; objects that the function refers to are not
    sent. Each task is read only when a worker may soon need it. Raises a `UserError` if a worker
    process died, for example because memory ran out.
    """
    workers = min(workers, operator.length_hint(tasks, workers))
    if workers < 2:
        yield from map(function, tasks)
        return
    # A child that garbage-collects an open TensorFlow session of the parent would die.
    gc.collect()
    global _function
    _function = function
    context = multiprocessing.get_context("fork")
    try:
        pool = concurrent.futures.ProcessPoolExecutor(
            workers, context, initializer=_begin, initargs=(os.getpid(),)
        )
    except OSError as e:
        # Its locks are there.
        LOG.warning("/dev/shm cannot be written (%s): one process works, not %d", e, workers)
        yield from map(function, tasks)
        return
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
        # Do not wait for running tasks: the workers end with this process.
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()


def _begin(parent: int) -> None:
    # A terminal sends these to all of its processes; the parent handles them.
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # Otherwise, if the parent is killed, the workers wait forever for tasks.
    signals.follow_parent(parent)


def _call(task: Task) -> Any:
    return _function(task)
