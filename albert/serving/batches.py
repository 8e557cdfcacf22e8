"""Batching of requests that wait at the same time."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

# Longest time that a batch waits for as many requests as the last one had. Clients that it answered
# ask again within it; the first of them would otherwise be a separate batch.
_GATHER_SECONDS = 0.003


class RequestRefused(Exception):
    """The queue accepts no request because it is full."""


class _Abandoned(Exception):
    """All requests of a batch have been cancelled."""


class _Entry(NamedTuple):
    request: Any
    size: int
    future: asyncio.Future


class Batcher:
    """A queue of requests of one event loop, and the thread that answers them in batches.

    Requests that arrive while the model computes form the next batch, so batches grow with the
    load. Only after a batch of several requests does one wait a moment for others.
    """

    def __init__(
        self,
        answer_all: Callable[[Sequence[Any], Callable[[], None] | None], Sequence[Any]],
        most_waiting: int,
        most_together: int,
        note_batch: Callable[[int], Any] = lambda count: None,
        pause: Callable[[], object] | None = None,
    ):
        """Takes `answer_all`, which answers a batch in order; only one thread calls it.

        The limits are those of the queue's length and of a batch's size; a larger request is a
        batch on its own. `note_batch` is called with the number of requests in each batch, and
        `pause`, which may raise, often while it is answered.
        """
        self._answer_all = answer_all
        self._note_batch, self._pause = note_batch, pause
        self._most_waiting, self._most_together = most_waiting, most_together
        self._queue: list[_Entry] = []
        self._last_count = 1
        self._thread = ThreadPoolExecutor(1)
        # Set while no request is queued or being answered.
        self.idle = threading.Event()
        self.idle.set()

    @property
    def waiting(self) -> int:
        """Returns the number of requests in the queue; cancelled ones leave it."""
        self._queue = [entry for entry in self._queue if not entry.future.cancelled()]
        return len(self._queue)

    def submit(self, request: Any, size: int = 1) -> asyncio.Future:
        """Adds a request of a given size to the queue; raises a `RequestRefused` if that is full.

        The future can be cancelled until the request is answered. A batch whose requests are all
        cancelled is abandoned at the next pause, if any.
        """
        if self.waiting >= self._most_waiting:
            raise RequestRefused(f"{len(self._queue)} requests are waiting; try again later")
        future = asyncio.get_running_loop().create_future()
        self._queue.append(_Entry(request, size, future))
        if self.idle.is_set():
            self.idle.clear()
            # The loop itself keeps only a weak reference.
            self._work = asyncio.ensure_future(self._answer_queue())
        return future

    async def _answer_queue(self) -> None:
        while await self._gather():
            batch, size = list[_Entry](), 0
            for entry in self._queue:
                size += entry.size
                if batch and size > self._most_together:
                    break
                batch.append(entry)
            del self._queue[: len(batch)]
            self._last_count = len(batch)
            self._note_batch(len(batch))
            await self._answer(batch)
        self.idle.set()

    async def _gather(self) -> int:
        """Waits for as many requests as the last batch had; returns the number of waiting ones."""
        end = time.monotonic() + _GATHER_SECONDS
        while 0 < self.waiting < self._last_count and time.monotonic() < end:
            # The other tasks of the loop read the requests.
            await asyncio.sleep(0)
        return self.waiting

    async def _answer(self, batch: Sequence[_Entry]) -> None:
        def pause() -> None:
            if all(entry.future.cancelled() for entry in batch):
                raise _Abandoned
            if self._pause:
                self._pause()

        def compute() -> Sequence[Any]:
            pause()
            requests = [entry.request for entry in batch]
            return self._answer_all(requests, pause if self._pause else None)

        try:
            answers = await asyncio.get_running_loop().run_in_executor(self._thread, compute)
        except _Abandoned:
            return
        except Exception as e:
            # One request of several may be at fault; the others still get their answers.
            for entry in batch if len(batch) > 1 else ():
                await self._answer([entry])
            if not batch[0].future.done():
                batch[0].future.set_exception(e)
            return
        for entry, answer in zip(batch, answers, strict=True):
            if not entry.future.done():
                entry.future.set_result(answer)
