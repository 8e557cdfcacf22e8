"""Silent workers are named, with a clock and sockets that the test controls."""

import contextlib
import socket
import types

import pytest

from albert.distributed import heartbeats


class Ended(Exception):
    """Ends the process in the test."""


@pytest.fixture
def pairs():
    pairs = [socket.socketpair() for _ in range(2)]
    yield pairs
    for end in (end for pair in pairs for end in pair):
        end.close()


@pytest.fixture
def watch(monkeypatch, pairs):
    """Watches workers that act at each pause of two seconds; returns the reported lines."""

    def watch(at_pause, late=0.0):
        now, pauses, said = [0.0], [], []

        def sleep(seconds):
            pauses.append(seconds)
            # If the process itself is stopped, a pause takes longer.
            now[0] += seconds + (late if len(pauses) == 2 else 0)
            at_pause(len(pauses), *(theirs for _, theirs in pairs))
            if len(pauses) == 50:
                raise Ended

        def end(line):
            said.append(f"{line} at {now[0]:g}")
            raise Ended

        clock = types.SimpleNamespace(monotonic=lambda: now[0], sleep=sleep)
        monkeypatch.setattr(heartbeats, "time", clock)
        peers = {ours: f"rank {number}" for number, (ours, _) in enumerate(pairs, 1)}
        with contextlib.suppress(Ended):
            heartbeats._watch(peers, 9.0, end)
        return said

    return watch


def test_a_silent_worker_is_named(watch, pairs):
    def answer(pause, first, second):
        first.send(b".")
        if pause <= 3:
            second.send(b".")

    assert watch(answer) == ["rank 2 has not answered for 10 s at 16"]
    for _, theirs in pairs:
        assert theirs.recv(1000, socket.MSG_DONTWAIT).startswith(b"...."), "both are answered"


def test_a_worker_that_reads_nothing_is_silent(watch, pairs):
    full = pairs[1][0]
    full.setblocking(False)
    with pytest.raises(BlockingIOError):
        while True:
            full.send(b"." * 1000)
    said = watch(lambda pause, first, second: first.send(b"."))
    assert said == ["rank 2 has not answered for 10 s at 10"]


@pytest.mark.parametrize("late", [0.0, 100.0])
def test_answering_workers_are_not_named(watch, late):
    """The time for which this process itself was stopped does not count."""

    def answer(pause, *ends):
        for end in ends if pause > 2 else ():
            end.send(b".")

    assert watch(answer, late) == []


def test_a_worker_says_which_one_it_is(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        where = ["127.0.0.1"], server.getsockname()[1], "secret", "rank 0"
        monkeypatch.setattr(heartbeats.exchange, "broadcast_object", lambda value: where)
        ((connection, name),) = heartbeats._connected().items()
        with connection, server.accept()[0] as accepted:
            assert (accepted.recv(99).decode(), name) == (f"secret{heartbeats._name()}", "rank 0")


def test_a_worker_that_has_ended_is_not_waited_for(watch):
    assert watch(lambda pause, *ends: ends[pause > 1].close()) == []
