"""Connections end after a time limit, or when others need room; with a trivial application."""

import asyncio
import contextlib
import http.client
import itertools
import json
import os
import resource
import socket
from collections.abc import Callable, Iterator

import pytest
from starlette.responses import JSONResponse

from albert.serving import server
from albert.serving.server import HttpServer, listen
from tests.helpers.files import limited
from tests.helpers.forking import ROOT
from tests.helpers.serving import LONGEST, until

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
POST = b"POST /wait HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n"


class Answering:
    """Answers with the size of the body; under /wait when allowed, under /large with 20 MB."""

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
def connect(app, monkeypatch, request) -> Iterator[Callable[[bytes], socket.socket]]:
    """Connects to a server with limits on connections and idle time, and sends something."""
    most, seconds = getattr(request, "param", (4, 2.0 * LONGEST))
    monkeypatch.setattr(server, "most_connections", lambda: most)
    monkeypatch.setattr(server, "IDLE_SECONDS", seconds)
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


def status_of(connection: socket.socket) -> int:
    """Returns the status of an answer; 0 if the connection was closed instead."""
    with contextlib.suppress(ConnectionError), http.client.HTTPResponse(connection) as response:
        response.begin()
        response.read()
        return response.status
    return 0


def last_answer(connection: socket.socket) -> list[bytes]:
    """Returns head and body of an answer after which the connection is closed."""
    return b"".join(iter(lambda: connection.recv(65536), b"")).split(b"\r\n\r\n")


def is_open(connection: socket.socket) -> bool:
    """Returns whether a connection is open, with nothing to read."""
    connection.setblocking(False)
    try:
        connection.recv(1)
    except BlockingIOError:
        return True
    return False


def test_the_longest_waiting_connection_is_closed_first(connect):
    kept_alive = connect(GET)
    assert status_of(kept_alive) == 200
    others = [connect(sent) for sent in (b"", GET[:-2], POST % 9 + b"body", b"", b"GET", b"")]
    assert status_of(connect(GET)) == 200
    assert [status_of(closed) for closed in (kept_alive, *others[:3])] == [0] * 4
    assert all(map(is_open, others[3:]))


def test_connections_being_answered_stay_open(connect, app):
    working = [connect(POST % 4 + b"body") for _ in range(4)]
    until(lambda: app.begun == 4)
    refused = connect(GET)
    head, body = last_answer(refused)
    assert head.startswith(b"HTTP/1.1 503 ") and b"\r\nretry-after: 1" in head
    assert json.loads(body) == {"error": "all connections are in use; try again later"}
    app.may.set()
    assert [status_of(connection) for connection in working] == [200] * 4
    assert status_of(connect(GET)) == 200


def test_the_page_gives_the_idle_limit():
    page = (ROOT / "docs/serving.md").read_text(encoding="utf-8")
    assert f"more than {server.IDLE_SECONDS} seconds" in " ".join(page.split())


@pytest.mark.parametrize("connect", [(4, 0.5)], indirect=True)
@pytest.mark.slow
def test_connections_that_wait_for_the_client_time_out(connect, app):
    slow = connect(POST % 4)
    for sent in (b"", GET[:-2], GET + GET[:-2]):
        connection = connect(sent)
        assert status_of(connection) == (200 if sent.startswith(GET) else 0)
        assert status_of(connection) == 0
    # The application limits the time of a body and of an answer.
    slow.sendall(b"body")
    app.may.set()
    assert status_of(slow) == 200
    assert status_of(slow) == 0
    answered = app.answered
    large = connect(GET.replace(b"/ ", b"/large ") * 3)
    # The second waits for room behind the first, until the connection is closed.
    until(lambda: app.answered == answered + 2)
    received = 0
    with contextlib.suppress(ConnectionError):
        while part := large.recv(1 << 20):
            received += len(part)
    assert 0 < received < 20_000_000


@pytest.mark.parametrize("sent", [b"nothing\r\n\r\n", GET[:-2] + b"Content-Length: x\r\n\r\n"])
def test_a_request_that_is_not_http_gets_400(connect, sent):
    head, body = last_answer(connect(sent))
    assert head.startswith(b"HTTP/1.1 400 ") and b"\r\ncontent-type: application/json" in head
    assert json.loads(body) == {"error": "the request is not valid HTTP"}


@pytest.mark.parametrize("connect", [(512, 2.0 * LONGEST)], indirect=True)
def test_running_out_of_file_descriptors_is_one_log_line(connect, caplog):
    address = connect().getpeername()
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(socket.socket()) for _ in range(40)]
        used = set(map(int, os.listdir("/proc/self/fd")))
        free = (number for number in itertools.count() if number not in used)
        with limited(resource.RLIMIT_NOFILE, next(itertools.islice(free, 10, None))):
            for client in clients:
                client.settimeout(LONGEST)
                client.connect(address)
            until(lambda: caplog.records)
        # All of them are accepted once descriptors are free again.
        clients[-1].sendall(GET)
        assert status_of(clients[-1]) == 200
    (record,) = caplog.records
    assert record.getMessage().startswith("no connection can be accepted: Too many open files")


@pytest.mark.parametrize(("files", "most"), [(1024, 512), (100, 50)])
def test_the_connection_limit_is_half_the_file_limit(files, most):
    with limited(resource.RLIMIT_NOFILE, files):
        assert server.most_connections() == most
