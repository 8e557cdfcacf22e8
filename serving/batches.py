"""Requests that wait at the same time go through the model together."""

from __future__ import annotations

import collections
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any


class Refused(Exception):
    """Nothing more is taken: too many wait already, or it ends."""


class Batcher:
    """A queue, and the thread that empties it.

    While the model computes, others come; they are the next batch. So nobody waits for company,
    and batches grow with the load.
    """

    def __init__(
        self,
        answer_all: Callable[[Sequence[Any]], Sequence[Any]],
        most_waiting: int,
        most_together: int,
        note_size: Callable[[int], Any] = lambda size: None,
    ):
        """Starts the thread.

        Args:
          answer_all: from what is asked to as many answers; called by the thread alone.
          most_waiting: length of the queue.
          most_together: size of a batch.
          note_size: is told the size of each batch.
        """
        self._answer_all, self._note_size = answer_all, note_size
        self._most_waiting, self._most_together = most_waiting, most_together
        self._waiting: collections.deque[tuple[Any, Future]] = collections.deque()
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Returns how many wait."""
        return len(self._waiting)

    def submit(self, asked: Any) -> Future:
        """Puts something into the queue; until it is taken it can be cancelled, and has left.

        Raises:
          Refused: the queue is full, or closed.
        """
        with self._changed:
            if self._closed:
                raise Refused("the server ends")
            if len(self._waiting) >= self._most_waiting:
                raise Refused(f"{len(self._waiting)} requests wait already; try again later")
            future: Future = Future()
            entry = (asked, future)
            self._waiting.append(entry)
            self._changed.notify()
        future.add_done_callback(lambda _: self._forget(entry))
        return future

    def close(self) -> None:
        """Takes nothing more, and returns when all that was taken is answered."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _forget(self, entry: tuple[Any, Future]) -> None:
        if entry[1].cancelled():
            with self._changed:
                # Unless the thread has it already.
                self._waiting = collections.deque(e for e in self._waiting if e is not entry)

    def _work(self) -> None:
        while self._wait():
            batch = self._take()
            if batch:
                self._note_size(len(batch))
                self._answer(batch)

    def _wait(self) -> bool:
        """Waits for requests; whether there are any, and not only the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed)
            return bool(self._waiting)

    def _take(self) -> list[tuple[Any, Future]]:
        with self._changed:
            count = min(len(self._waiting), self._most_together)
            taken = [self._waiting.popleft() for _ in range(count)]
        return [entry for entry in taken if entry[1].set_running_or_notify_cancel()]

    def _answer(self, batch: Sequence[tuple[Any, Future]]) -> None:
        try:
            answers = self._answer_all([asked for asked, _ in batch])
        except Exception as e:
            if len(batch) == 1:
                batch[0][1].set_exception(e)
                return
            # One of them is at fault, and the others are answered.
            for entry in batch:
                self._answer([entry])
            return
        for (_, future), answer in zip(batch, answers, strict=True):
            future.set_result(answer)
