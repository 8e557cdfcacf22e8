"""Connections give way to time and to each other: a real server, and an application of nothing."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import itertools
import json
import os
import resource
import socket
import time
from collections.abc import Callable, Iterator

import pytest
from starlette.responses import JSONResponse

from serving import connections, server
from serving.server import HttpServer, listen

LONGEST = 60
GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
POST = b"POST /wait HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n"


class Answering:
    """Answers with the size of the body; under /wait when it may, under /large with 20 MB."""

    def __init__(self):
        self.may, self.begun, self.answered = asyncio.Event(), 0, 0

    async def __call__(self, scope, receive, send):
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        if scope["path"] == "/wait":
            self.begun += 1
            while not self.may.is_set():
                await asyncio.sleep(0.01)
        answer = "x" * 20_000_000 if scope["path"] == "/large" else len(body)
        await JSONResponse(answer)(scope, receive, send)
        self.answered += 1


@pytest.fixture
def app() -> Answering:
    return Answering()


@pytest.fixture
def most() -> int:
    return 4


@pytest.fixture
def connect(app, most, monkeypatch) -> Iterator[Callable[[bytes], socket.socket]]:
    """Connects to a server that has so many connections at a time, and sends something."""
    monkeypatch.setattr(server, "_MOST_CONNECTIONS", most)
    with contextlib.ExitStack() as stack:
        listener = listen("127.0.0.1", 0)
        address = listener.getsockname()
        running = HttpServer(app, listener, 1.0)

        def connect(sent: bytes = b"") -> socket.socket:
            opened = stack.enter_context(socket.create_connection(address, timeout=LONGEST))
            opened.sendall(sent)
            return opened

        yield connect
        app.may.set()
        stack.close()
        running.stop()


def until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + LONGEST
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def status_of(connection: socket.socket) -> int:
    """The status of an answer; 0 if the connection was closed instead."""
    with contextlib.suppress(ConnectionError), http.client.HTTPResponse(connection) as response:
        response.begin()
        response.read()
        return response.status
    return 0


def last_answer(connection: socket.socket) -> list[bytes]:
    """Head and body of an answer behind which the connection is closed."""
    return b"".join(iter(lambda: connection.recv(65536), b"")).split(b"\r\n\r\n")


def is_open(connection: socket.socket) -> bool:
    connection.settimeout(0.1)
    with contextlib.suppress(ConnectionError):
        try:
            return bool(connection.recv(1))
        except TimeoutError:
            return True
    return False


def test_the_one_that_has_waited_longest_gives_way(connect):
    kept_alive = connect(GET)
    assert status_of(kept_alive) == 200
    others = [connect(sent) for sent in (b"", GET[:-2], POST % 9 + b"body", b"", b"GET", b"")]
    assert status_of(connect(GET)) == 200
    assert [is_open(connection) for connection in (kept_alive, *others)] == [False] * 4 + [True] * 3


def test_what_is_being_answered_does_not_give_way(connect, app):
    working = [connect(POST % 4 + b"body") for _ in range(4)]
    until(lambda: app.begun == 4)
    refused = connect(GET)
    head, body = last_answer(refused)
    assert head.startswith(b"HTTP/1.1 503 ") and b"\r\nretry-after: 1" in head
    assert json.loads(body) == {"error": "all connections are in use; try again later"}
    app.may.set()
    assert [status_of(connection) for connection in working] == [200] * 4
    assert status_of(connect(GET)) == 200


def test_time_ends_what_waits_for_a_client(connect, app, monkeypatch):
    monkeypatch.setattr(connections, "IDLE_SECONDS", 0.5)
    slow = connect(POST % 4)
    for sent in (b"", GET[:-2], GET + GET[:-2]):
        connection = connect(sent)
        assert status_of(connection) == (200 if sent.startswith(GET) else 0)
        assert status_of(connection) == 0
    # The application says how long a body, and an answer, may take.
    slow.sendall(b"body")
    app.may.set()
    assert status_of(slow) == 200
    assert status_of(slow) == 0


def test_an_answer_that_nobody_fetches(connect, app, monkeypatch):
    monkeypatch.setattr(connections, "IDLE_SECONDS", 0.5)
    large = connect(GET.replace(b"/ ", b"/large ") * 3)
    # The second waits for room behind the first, until the connection is closed.
    until(lambda: app.answered == 2)
    received = 0
    with contextlib.suppress(ConnectionError):
        while part := large.recv(1 << 20):
            received += len(part)
    assert 0 < received < 20_000_000


@pytest.mark.parametrize("sent", [b"nothing\r\n\r\n", GET[:-2] + b"Content-Length: x\r\n\r\n"])
def test_what_is_not_http(connect, sent):
    connection = connect(sent)
    head, body = last_answer(connection)
    assert head.startswith(b"HTTP/1.1 400 ") and b"\r\ncontent-type: application/json" in head
    assert json.loads(body) == {"error": "the request is not valid HTTP"}


@pytest.mark.parametrize("most", [512])
def test_a_shortage_of_files_is_one_line(connect, caplog):
    address = connect().getpeername()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(socket.socket()) for _ in range(40)]
        used = set(map(int, os.listdir("/proc/self/fd")))
        free = (number for number in itertools.count() if number not in used)
        resource.setrlimit(resource.RLIMIT_NOFILE, (next(itertools.islice(free, 10, None)), hard))
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        for client in clients:
            client.settimeout(LONGEST)
            client.connect(address)
        until(lambda: caplog.records)
        # Until asyncio has tried again.
        assert is_open(clients[0])
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        clients[-1].sendall(GET)
        assert status_of(clients[-1]) == 200
    (record,) = caplog.records
    assert record.getMessage().startswith("no connection can be accepted: Too many open files")


def test_the_limit_is_below_that_on_files():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        for files, most in ((1024, 512), (100, 50)):
            resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
            assert server.most_connections() == most
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
