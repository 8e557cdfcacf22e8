"""A web server on this machine whose faults a test can order, and a way to run the commands."""

import hashlib
import os
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from download import fetch
from download.command import run_command
from download.published import PUBLISHED

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Fault:
    """What is to go wrong with one request."""

    status: int | None = None  # answer with this status and no file
    headers: dict[str, str] = field(default_factory=dict)  # sent besides, or instead of the usual
    cut_after: int | None = None  # bytes of the body, then the connection is closed
    hold_after: int | None = None  # bytes of the body, then wait for Server.release
    deaf_to_range: bool = False  # answer 200 with the whole file
    deaf_to_if_range: bool = False  # answer 206 whatever the version
    without_length: bool = False
    trickle: bool = False  # the body a byte at a time, some 100 a second
    reason: str | None = None  # in place of the usual words after the status


@dataclass
class Request:
    path: str
    range: str | None
    if_range: str | None
    sent: int = 0  # bytes of body


class Server(ThreadingHTTPServer):
    """Serves `files` (path without the first slash -> content), with Range and If-Range."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes] = {}
        self.etag = '"one"'
        self.faults: deque[Fault] = deque()
        self.requests: list[Request] = []
        self.release = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that are killed are part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        request = Request(
            urlsplit(self.path).path[1:], self.headers["Range"], self.headers["If-Range"]
        )
        fault = self.server.faults.popleft() if self.server.faults else Fault()
        self.server.requests.append(request)
        body = self.server.files.get(request.path)
        if fault.status or body is None:
            headers = {"Content-Length": "0", **fault.headers}
            self._answer(fault.status or 404, headers, fault.reason)
            return
        headers = {"ETag": self.server.etag}
        status, start = 200, 0
        same = fault.deaf_to_if_range or request.if_range in (None, self.server.etag)
        if request.range and same and not fault.deaf_to_range:
            start = int(request.range.removeprefix("bytes=").removesuffix("-"))
            if start >= len(body):
                self._answer(416, {"Content-Range": f"bytes */{len(body)}"})
                return
            status = 206
            headers["Content-Range"] = f"bytes {start}-{len(body) - 1}/{len(body)}"
        if not fault.without_length:
            headers["Content-Length"] = str(len(body) - start)
        rest = body[start:][: fault.cut_after]
        request.sent = len(rest)
        self._answer(status, headers | fault.headers)
        if fault.hold_after is not None:
            self.wfile.write(rest[: fault.hold_after])
            self.wfile.flush()
            self.server.release.wait(10)
            rest = rest[fault.hold_after :]
        while fault.trickle and rest and not self.server.release.wait(0.01):
            self.wfile.write(rest[:1])
            rest = rest[1:]
        self.wfile.write(rest)

    def _answer(self, status: int, headers: dict[str, str], reason: str | None = None) -> None:
        self.send_response(status, reason)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    # A proxy that is set for this machine is not for a server on it.
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.release.set()
        server.shutdown()
        thread.join()


@pytest.fixture
def fault() -> type[Fault]:
    return Fault


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes this process wait but a moment between tries."""
    monkeypatch.setattr(fetch, "_FIRST_WAIT", 0.01)


@pytest.fixture
def command(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> Callable[..., subprocess.CompletedProcess]:
    """Runs the `main` of a script in this process; its log lines come before its error."""

    def command(main: Callable[[], None], *args: object) -> subprocess.CompletedProcess:
        name = main.__module__.rpartition(".")[2] + ".py"
        monkeypatch.setattr(sys, "argv", [name, *map(str, args)])
        caplog.set_level("INFO")
        caplog.clear()
        try:
            code = run_command(main)
        except SystemExit as end:
            code = end.code or 0
        out, err = capsys.readouterr()
        log = "".join(f"{message}\n" for message in caplog.messages)
        return subprocess.CompletedProcess(sys.argv, code, out, log + err)

    return command


@pytest.fixture
def publish(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, bytes]], None]:
    """Lets other files be those that are published, by their names."""

    def publish(files: dict[str, bytes]) -> None:
        for name, content in files.items():
            sha256 = hashlib.sha256(content).hexdigest()
            file = PUBLISHED[name]._replace(sha256=sha256, size=len(content))
            monkeypatch.setitem(PUBLISHED, name, file)

    return publish


Start = Callable[..., subprocess.Popen]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a Python program with its output captured; kills what a failed test leaves."""
    children = []

    def start(*args: object, **options: object) -> subprocess.Popen:
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | options
        command = [sys.executable, *map(str, args)]
        children.append(subprocess.Popen(command, **options))
        return children[-1]

    yield start
    for child in children:
        if child.poll() is None:
            child.kill()
        child.communicate()


@pytest.fixture
def run(start: Start) -> Callable[..., subprocess.CompletedProcess]:
    """Runs a Python program to its end, from the project's root unless told otherwise."""

    def run(*args: object, **options: object) -> subprocess.CompletedProcess:
        child = start(*args, **({"cwd": ROOT} | options))
        out, err = child.communicate(timeout=30)
        return subprocess.CompletedProcess(child.args, child.returncode, out, err)

    return run


@pytest.fixture
def wait_for_bytes() -> Callable[[Path, int], None]:
    """Waits until a file is at least so many bytes long."""

    def wait(path: Path, count: int) -> None:
        end = time.monotonic() + 10
        while not (path.exists() and os.path.getsize(path) >= count):
            assert time.monotonic() < end, f"{path} has not come to {count} bytes"
            time.sleep(0.01)

    return wait
