"""A local web server whose faults a test orders, and archives for it."""

import hashlib
import io
import tarfile
import threading
import zipfile
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest

from albert.download import fetch
from albert.download.published import PUBLISHED


def tar_of(files: dict[str, bytes], mode: str = "w:gz") -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=mode) as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return stream.getvalue()


def zip_of(files: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return stream.getvalue()


@dataclass
class Fault:
    status: int | None = None  # answer with this status and no file
    headers: dict[str, str] = field(default_factory=dict)  # added to, or instead of, the usual ones
    cut_after: int | None = None  # bytes of the body, then the connection is closed
    hold_after: int | None = None  # bytes of the body, then wait for Server.release
    deaf_to_range: bool = False  # answer 200 with the whole file
    without_length: bool = False
    reason: str | None = None  # instead of the usual words after the status


@dataclass
class Request:
    method: str
    path: str
    range: str | None
    sent: int = 0  # bytes of body


class Server(ThreadingHTTPServer):
    """Serves `files` (path without the first slash -> content) with their `headers`, and Range."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes] = {}
        self.headers: dict[str, dict[str, str]] = {}
        self.faults: deque[Fault] = deque()
        self.requests: list[Request] = []
        self.release = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignores errors: clients that are killed are part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        path = urlsplit(self.path).path[1:]
        request = Request(self.command, path, self.headers["Range"])
        fault = self.server.faults.popleft() if self.server.faults else Fault()
        self.server.requests.append(request)
        body = self.server.files.get(request.path)
        if fault.status or body is None:
            headers = {"Content-Length": "0", **fault.headers}
            self._answer(fault.status or 404, headers, fault.reason)
            return
        headers, status, start = dict[str, str](), 200, 0
        if request.range and not fault.deaf_to_range:
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
        self._answer(status, headers | self.server.headers.get(request.path, {}) | fault.headers)
        if self.command == "HEAD":
            return
        if fault.hold_after is not None:
            self.wfile.write(rest[: fault.hold_after])
            self.wfile.flush()
            self.server.release.wait(10)
            rest = rest[fault.hold_after :]
        self.wfile.write(rest)

    do_HEAD = do_GET

    def _answer(self, status: int, headers: dict[str, str], reason: str | None = None) -> None:
        self.send_response(status, reason)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch) -> Iterator[Server]:
    # A proxy that is set for this machine is not for a local server.
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(fetch, "FIRST_WAIT", 0.01)
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.release.set()
        server.shutdown()
        thread.join()


@pytest.fixture
def publish(monkeypatch, server) -> Callable[[dict[str, bytes]], None]:
    """Makes files the published ones, with addresses of the server."""

    def publish(files: dict[str, bytes]) -> None:
        for name, content in files.items():
            expected = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
            file = PUBLISHED[name]._replace(url=server.url + name, **expected)
            monkeypatch.setitem(PUBLISHED, name, file)

    return publish
