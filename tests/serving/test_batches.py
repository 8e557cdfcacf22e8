"""Waiting requests are answered together, and no accepted request is lost."""

import threading

import pytest

from albert.serving import batches
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


@pytest.fixture
def doubling():
    return Doubling()


@pytest.fixture
def batcher(doubling):
    """Returns a batcher whose model has begun with the first number, 1."""
    batcher = Batcher(doubling, most_waiting=4, most_together=3)
    first = batcher.submit(1)
    assert doubling.begun.wait(60)
    yield batcher
    doubling.may.set()
    batcher.close()
    assert first.result() == 2


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ((1, 1, 1, 1), [[1], [2, 3, 4], [5]]),
        # A request larger than a batch gets a separate one.
        ((2, 1, 9, 1), [[1], [2, 3], [4], [5]]),
    ],
)
def test_waiting_requests_are_batched_up_to_the_limit(batcher, doubling, sizes, expected):
    futures = [batcher.submit(number, size) for number, size in enumerate(sizes, start=2)]
    doubling.may.set()
    assert [future.result(60) for future in futures] == [4, 6, 8, 10]
    assert doubling.batches == expected


def test_clients_that_were_answered_together_ask_together_again(batcher, doubling, monkeypatch):
    monkeypatch.setattr(batches, "_GATHER_SECONDS", 60)
    together = [batcher.submit(number) for number in (2, 3)]
    doubling.may.set()
    assert [future.result(60) for future in together] == [4, 6]
    again = [batcher.submit(number) for number in (4, 5)]
    assert [future.result(60) for future in again] == [8, 10]
    assert doubling.batches == [[1], [2, 3], [4, 5]]


def test_a_batch_that_nobody_waits_for_is_abandoned():
    begun, pauses = threading.Event(), []

    def count(numbers, pause):
        for _ in range(1_000_000):
            begun.set()
            pause()
        return numbers

    batcher = Batcher(count, 4, 2, pause=lambda: pauses.append(1))
    abandoned = batcher.submit(1)
    assert begun.wait(60) and abandoned.cancel()
    # The model stops before the million.
    batcher.wait_until_idle(60)
    assert 0 < len(pauses) < 1_000_000
    batcher.close()


def test_a_faulty_request_does_not_fail_the_others(batcher, doubling):
    batcher.wait_until_idle(0.01)
    futures = [batcher.submit(number) for number in (2, 0, 3)]
    doubling.may.set()
    batcher.wait_until_idle(60)
    assert [futures[n].result(0) for n in (0, 2)] == [4, 6]
    assert isinstance(futures[1].exception(0), ZeroDivisionError)


def test_closing_answers_accepted_requests(doubling):
    sizes = []
    batcher = Batcher(doubling, 9, 3, note_batch=sizes.append)
    futures = [batcher.submit(number) for number in range(1, 8)]
    closing = threading.Thread(target=batcher.close)
    closing.start()
    doubling.may.set()
    closing.join(60)
    assert [future.result(0) for future in futures] == [2, 4, 6, 8, 10, 12, 14]
    assert sum(sizes) == 7 and max(sizes) == 3 and batcher.waiting == 0
    with pytest.raises(RequestRefused, match="shutting down"):
        batcher.submit(1)
