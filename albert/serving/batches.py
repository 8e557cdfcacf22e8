"""Requests that wait at the same time go through the model together."""

from __future__ import annotations

import collections
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple, Protocol


class RequestRefused(Exception):
    """Nothing more is taken: too many wait already, or it ends."""


class _Cancelled(Exception):
    """Nobody waits for a batch any more."""


class _Entry(NamedTuple):
    asked: Any
    size: int
    future: Future


class AnswerAll(Protocol):
    """Answers what is asked, in its order; calls `pause`, if any, often, which may raise."""

    def __call__(self, asked: Sequence[Any], pause: Callable[[], None] | None) -> Sequence[Any]:
        """Returns as many answers."""


class Batcher:
    """A queue, and the thread that empties it.

    While the model computes, others come; they are the next batch. So nobody waits for company,
    and batches grow with the load.
    """

    def __init__(
        self,
        answer_all: AnswerAll,
        most_waiting: int,
        most_together: int,
        note_batch: Callable[[int], Any] = lambda count: None,
        pause: Callable[[], None] | None = None,
    ):
        """Starts the thread.

        Args:
          answer_all: is called by the thread alone.
          most_waiting: length of the queue.
          most_together: size of a batch; what is larger by itself is one, too.
          note_batch: is told how many are in each batch.
          pause: is called often while a batch is answered, which can be given up then.
        """
        self._answer_all = answer_all
        self._note_batch, self._pause = note_batch, pause
        self._most_waiting, self._most_together = most_waiting, most_together
        self._waiting: collections.deque[_Entry] = collections.deque()
        self._changed = threading.Condition()
        self._closed = self._busy = False
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Returns how many wait."""
        return len(self._waiting)

    def submit(self, asked: Any, size: int = 1) -> Future:
        """Puts something of a size into the queue.

        Until it is answered it can be cancelled. It leaves the queue then; a batch in which all
        are cancelled is given up at the next pause, if there are any.

        Raises:
          Refused: the queue is full, or closed.
        """
        with self._changed:
            if self._closed:
                raise RequestRefused("the server ends")
            if len(self._waiting) >= self._most_waiting:
                raise RequestRefused(f"{len(self._waiting)} requests wait already; try again later")
            future: Future = Future()
            entry = _Entry(asked, size, future)
            self._waiting.append(entry)
            self._changed.notify_all()
        future.add_done_callback(lambda _: self._forget(entry))
        return future

    def wait_until_idle(self, seconds: float) -> None:
        """Waits until nothing waits or is computed, at most so long."""
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting and not self._busy, seconds)

    def close(self) -> None:
        """Takes nothing more, and returns when all that was taken is answered."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()

    def _forget(self, entry: _Entry) -> None:
        if entry.future.cancelled():
            with self._changed:
                # Unless the thread has it already.
                self._waiting = collections.deque(e for e in self._waiting if e is not entry)

    def _work(self) -> None:
        while batch := self._take():
            self._note_batch(len(batch))
            self._answer(batch)

    def _take(self) -> list[_Entry]:
        """Waits for a batch; it is empty at the end."""
        with self._changed:
            self._busy = False
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._waiting or self._closed)
            batch, size = list[_Entry](), 0
            while self._waiting:
                size += self._waiting[0].size
                if batch and size > self._most_together:
                    break
                batch.append(self._waiting.popleft())
            self._busy = bool(batch)
        return batch

    def _answer(self, batch: Sequence[_Entry]) -> None:
        def pause() -> None:
            if all(entry.future.cancelled() for entry in batch):
                raise _Cancelled
            if self._pause:
                self._pause()

        try:
            pause()
            answers = self._answer_all(
                [entry.asked for entry in batch], pause if self._pause else None
            )
        except _Cancelled:
            return
        except Exception as e:
            if len(batch) > 1:
                # One of them is at fault, and the others are answered.
                for entry in batch:
                    self._answer([entry])
            elif batch[0].future.set_running_or_notify_cancel():
                batch[0].future.set_exception(e)
            return
        for entry, answer in zip(batch, answers, strict=True):
            if entry.future.set_running_or_notify_cancel():
                entry.future.set_result(answer)
