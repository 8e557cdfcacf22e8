"""Waiting requests are answered together, and faulty or abandoned ones do not harm the others."""

import asyncio
import threading

import pytest

from albert.serving import batches as module
from albert.serving.batches import Batcher, RequestRefused


class Doubling:
    """Doubles numbers, except zero, when a test allows it; notes the batches."""

    def __init__(self):
        self.may, self.begun, self.batches = threading.Event(), threading.Event(), []

    def __call__(self, numbers, pause):
        self.batches.append(list(numbers))
        self.begun.set()
        assert self.may.wait(60)
        return [2 / (1 / number) for number in numbers]

    async def answers(self, *requests: tuple[int, int]) -> list[object]:
        """Returns the answers to numbers with sizes that have waited for the first one, 1."""
        sizes = list[int]()
        batcher = Batcher(self, most_waiting=4, most_together=3, note_batch=sizes.append)
        first = batcher.submit(1)
        await asyncio.to_thread(self.begun.wait, 60)
        futures = [batcher.submit(*request) for request in requests]
        with pytest.raises(RequestRefused, match="^4 requests are waiting; try again later$"):
            batcher.submit(9)
        assert batcher.waiting == 4 and not batcher.idle.is_set()
        self.may.set()
        answers = await asyncio.gather(first, *futures, return_exceptions=True)
        await asyncio.to_thread(batcher.idle.wait, 60)
        assert batcher.waiting == 0 and sizes == list(map(len, self.batches))[: len(sizes)]
        return answers


@pytest.mark.parametrize(
    ("sizes", "batches"),
    [
        ((1, 1, 1, 1), [[1], [2, 3, 4], [5]]),
        # A request larger than a batch gets a separate one.
        ((2, 1, 9, 1), [[1], [2, 3], [4], [5]]),
    ],
)
def test_waiting_requests_are_batched_up_to_the_limit(sizes, batches):
    doubling = Doubling()
    assert asyncio.run(doubling.answers(*enumerate(sizes, start=2))) == [2, 4, 6, 8, 10]
    assert doubling.batches == batches


def test_a_faulty_request_does_not_fail_the_others():
    *answers, fault, last = asyncio.run(Doubling().answers((2, 1), (3, 1), (0, 1), (4, 1)))
    assert (answers, last) == ([2, 4, 6], 8) and isinstance(fault, ZeroDivisionError)


def test_clients_that_were_answered_together_ask_together_again(monkeypatch):
    monkeypatch.setattr(module, "_GATHER_SECONDS", 60)
    doubling = Doubling()
    doubling.may.set()

    async def ask_again() -> list[int]:
        batcher = Batcher(doubling, most_waiting=4, most_together=3)
        await batcher.submit(1)
        await asyncio.gather(batcher.submit(2), batcher.submit(3))
        first = batcher.submit(4)
        await asyncio.sleep(0.01)
        return await asyncio.gather(first, batcher.submit(5))

    assert asyncio.run(ask_again()) == [8, 10]
    assert doubling.batches == [[1], [2, 3], [4, 5]]


def test_a_batch_that_nobody_waits_for_is_abandoned():
    begun, pauses = threading.Event(), []

    def count(numbers, pause):
        for _ in range(1_000_000):
            begun.set()
            pause()
        return numbers

    async def abandon():
        batcher = Batcher(count, 4, 2, pause=lambda: pauses.append(1))
        abandoned = batcher.submit(1)
        await asyncio.to_thread(begun.wait, 60)
        assert abandoned.cancel()
        # The model stops before the million.
        await asyncio.to_thread(batcher.idle.wait, 60)

    asyncio.run(abandon())
    assert 0 < len(pauses) < 1_000_000
