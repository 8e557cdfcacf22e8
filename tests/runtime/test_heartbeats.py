"""Who is named when workers fall silent: by a clock and over sockets that the test holds."""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
import types

import pytest

from runtime import distributed, heartbeats


class Ended(Exception):
    """Ends the process, in the test."""


@pytest.fixture
def pairs():
    """Both ends of connections to two workers."""
    pairs = [socket.socketpair() for _ in range(2)]
    yield pairs
    for end in (end for pair in pairs for end in pair):
        end.close()


@pytest.fixture
def watch(monkeypatch, pairs):
    """Watches workers that do something at each pause of two seconds; returns what is said."""

    def watch(at_pause, late=0.0):
        now, pauses, said = [0.0], [], []

        def sleep(seconds):
            pauses.append(seconds)
            # Where the process itself is stopped, a pause takes longer.
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


def test_who_is_silent_is_named(watch, pairs):
    def answer(pause, first, second):
        first.send(b".")
        if pause <= 3:
            second.send(b".")

    assert watch(answer) == ["rank 2 has not answered for 10 s at 16"]
    assert all(theirs.recv(1000).startswith(b"....") for _, theirs in pairs), "both are answered"


def test_one_that_takes_nothing_is_silent(watch, pairs):
    full = pairs[1][0]
    full.setblocking(False)
    with pytest.raises(BlockingIOError):
        while True:
            full.send(b"." * 1000)
    said = watch(lambda pause, first, second: first.send(b"."))
    assert said == ["rank 2 has not answered for 10 s at 10"]


@pytest.mark.parametrize("late", [0.0, 100.0])
def test_nobody_is_named(watch, late):
    """Where all answer; how long this process was stopped itself does not count."""

    def answer(pause, *ends):
        for end in ends if pause > 2 else ():
            end.send(b".")

    assert watch(answer, late) == []


def test_who_has_ended_is_not_waited_for(watch):
    """The launcher sees to that."""
    assert watch(lambda pause, *ends: ends[pause > 1].close()) == []


def test_workers_connect_with_rank_0(monkeypatch):
    told, found, own = queue.Queue(), {}, threading.local()

    def share(value):
        if own.rank:
            return told.get()
        for _ in range(2):
            told.put(value)
        return value

    def connect(rank):
        own.rank = rank
        found[rank] = heartbeats._connected() if rank else heartbeats._accepted()

    monkeypatch.setattr(distributed, "share", share)
    monkeypatch.setattr(distributed, "rank", lambda: own.rank)
    monkeypatch.setattr(distributed, "size", lambda: 3)
    threads = [threading.Thread(target=connect, args=[rank]) for rank in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    names = [f"rank {rank} on {socket.gethostname()}" for rank in range(3)]
    assert sorted(found[0].values()) == names[1:]
    assert [*found[1].values(), *found[2].values()] == names[:1] * 2
    for end in (end for ends in found.values() for end in ends):
        end.close()
