"""Batching of requests that wait at the same time."""

from __future__ import annotations

import collections
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

# Longest time that a batch waits for as many requests as the last batch had. Clients that have just
# been answered send their next requests within it; without it, one of them comes first, and batches
# of one and of seven alternate.
_GATHER_SECONDS = 0.003


class RequestRefused(Exception):
    """The queue accepts no request because it is full or the server is shutting down."""


class _Cancelled(Exception):
    """All requests of a batch have been cancelled."""


class _Entry(NamedTuple):
    request: Any
    size: int
    future: Future


class Batcher:
    """A queue of requests, and the thread that answers them in batches.

    Requests that arrive while the model computes form the next batch, so batches grow with the
    load. Only after a batch of several requests does one wait a moment for others.
    """

    def __init__(
        self,
        answer_all: Callable[[Sequence[Any], Callable[[], None] | None], Sequence[Any]],
        most_waiting: int,
        most_together: int,
        note_batch: Callable[[int], Any] = lambda count: None,
        pause: Callable[[], None] | None = None,
    ):
        """Starts the thread, the only one that calls `answer_all`, which answers a batch in order.

        The limits are those of the queue's length and of a batch's size; a larger request is a
        batch on its own. `note_batch` is called with the number of requests in each batch, and
        `pause`, which may raise, often while it is answered.
        """
        self._answer_all = answer_all
        self._note_batch, self._pause = note_batch, pause
        self._most_waiting, self._most_together = most_waiting, most_together
        self._waiting: collections.deque[_Entry] = collections.deque()
        self._changed = threading.Condition()
        self._closed, self._busy, self._last_count = False, False, 1
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Returns the number of requests in the queue."""
        return len(self._waiting)

    def submit(self, request: Any, size: int = 1) -> Future:
        """Adds a request of a given size to the queue.

        The future can be cancelled until the request is answered. A cancelled request leaves the
        queue. A batch whose requests are all cancelled is abandoned at the next pause, if any.
        Raises a `RequestRefused` if the queue is full or closed.
        """
        with self._changed:
            if self._closed:
                raise RequestRefused("the server is shutting down")
            if len(self._waiting) >= self._most_waiting:
                raise RequestRefused(f"{len(self._waiting)} requests are waiting; try again later")
            future: Future = Future()
            entry = _Entry(request, size, future)
            self._waiting.append(entry)
            self._changed.notify_all()
        future.add_done_callback(lambda _: self._forget(entry))
        return future

    def wait_until_idle(self, seconds: float) -> None:
        """Waits until no request is queued or being answered, or the time is over."""
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting and not self._busy, seconds)

    def close(self) -> None:
        """Accepts no more requests, and returns when all accepted ones are answered."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()

    def _forget(self, entry: _Entry) -> None:
        if entry.future.cancelled():
            with self._changed:
                # The thread may have taken it out already.
                self._waiting = collections.deque(e for e in self._waiting if e is not entry)

    def _work(self) -> None:
        while batch := self._take():
            self._note_batch(len(batch))
            self._answer(batch)

    def _take(self) -> list[_Entry]:
        """Waits for a batch; returns an empty one when the queue is closed and empty."""
        with self._changed:
            self._busy = False
            self._changed.notify_all()
            self._wait_for_requests(1)
            self._wait_for_requests(self._last_count, _GATHER_SECONDS)
            batch, size = list[_Entry](), 0
            while self._waiting:
                size += self._waiting[0].size
                if batch and size > self._most_together:
                    break
                batch.append(self._waiting.popleft())
            self._busy, self._last_count = bool(batch), len(batch)
        return batch

    def _wait_for_requests(self, count: int, seconds: float | None = None) -> None:
        self._changed.wait_for(lambda: len(self._waiting) >= count or self._closed, seconds)

    def _answer(self, batch: Sequence[_Entry]) -> None:
        def pause() -> None:
            if all(entry.future.cancelled() for entry in batch):
                raise _Cancelled
            if self._pause:
                self._pause()

        try:
            pause()
            answers = self._answer_all(
                [entry.request for entry in batch], pause if self._pause else None
            )
        except _Cancelled:
            return
        except Exception as e:
            if len(batch) > 1:
                # One request may be at fault; the others still get their answers.
                for entry in batch:
                    self._answer([entry])
            elif batch[0].future.set_running_or_notify_cancel():
                batch[0].future.set_exception(e)
            return
        for entry, answer in zip(batch, answers, strict=True):
            if entry.future.set_running_or_notify_cancel():
                entry.future.set_result(answer)
