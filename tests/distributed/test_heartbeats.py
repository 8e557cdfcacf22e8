"""Silent workers are named: with connections that answer as the test says."""

import socket
import types

import pytest

from albert.distributed import heartbeats


def answer(*results):
    """Returns a function that returns or raises one result at each call, then b""."""
    following = iter([*results, b""])

    def call(_):
        result = next(following)
        if isinstance(result, Exception):
            raise result
        return result

    return call


@pytest.fixture
def watch(monkeypatch):
    """Watches a worker with a limit of 9 seconds and pauses of 2; returns what is reported."""

    def watch(*answers, sends=lambda content: None):
        said = []
        monkeypatch.setattr(heartbeats.launcher, "fail", lambda line, code: said.append(line))
        monkeypatch.setattr(heartbeats, "time", types.SimpleNamespace(sleep=lambda seconds: None))
        calls = {"recv": answer(*answers), "sendall": sends, "settimeout": lambda seconds: None}
        heartbeats._watch(types.SimpleNamespace(**calls), "rank 2 on b", 9.0)
        return said

    return watch


@pytest.mark.parametrize("reads", [True, False])
def test_a_silent_worker_is_named(watch, reads):
    nothing = [TimeoutError()] * 5
    sends = (lambda content: None) if reads else answer(*nothing)
    (line,) = watch(b".", b"...", *nothing) if reads else watch(sends=sends)
    assert line.startswith("rank 2 on b has not answered for 10 s (--stall_seconds): its process")


@pytest.mark.parametrize("end", [b"", ConnectionResetError()])
def test_a_worker_that_answers_again_or_has_ended_is_not_named(watch, end):
    pauses = [TimeoutError()] * 4
    assert watch(*pauses, b".", *pauses, end) == []


def test_a_worker_says_which_one_it_is(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        where = ["127.0.0.1"], server.getsockname()[1], "secret", "rank 0"
        monkeypatch.setattr(heartbeats.exchange, "broadcast_object", lambda value: where)
        ((connection, name),) = heartbeats._connected().items()
        with connection, server.accept()[0] as accepted:
            assert (accepted.recv(99).decode(), name) == (f"secret{heartbeats._name()}", "rank 0")
