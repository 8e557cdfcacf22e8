"""Requests to a server."""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import pathlib
import re
import socket
import subprocess
import threading
from collections.abc import Collection, Iterator

from tests.faults.inputs.attempt import Attempt

_SERVE = ("serve", "{w}/squad", "--port=0", "--max_seconds=5", "--max_bytes=20000")
_GOOD = {"question": "Who?", "context": "A cat sat."}
# Bodies by the status of the answer.
_BODIES = {
    422: (b'"x"', b"null"),
    413: (b'{"context": "' + b"a" * 30_000 + b'"}',),
    400: (
        *(b"{}{}", b'{"question": "Wh', b"{'question': 'Who?'}", b'{"question": "Who?",}'),
        *(json.dumps(_GOOD).encode("utf-16"), b'{"question": "\xc0\xaf"}', bytes(range(256))),
    ),
}
# Requests, with | for the ends of lines, and the possible statuses of the answer; 0 means that the
# server hangs up.
_RAW = {
    "PUT /v1/answer HTTP/1.1|Host: x|Content-Length: 0||": {405},
    " / HTTP/1.1|Host: x||": {400},
    "GET /health||": {400, 0},
    "GET /health HTTP/3.7|Host: x||": {200, 400, 505},
    "GET\t/health\tHTTP/1.1|Host: x||": {400},
    "GET /../../etc/passwd HTTP/1.1|Host: x||": {400, 404},
    "GET /%zz%u0041 HTTP/1.1|Host: x||": {400, 404},
    "GET /health HTTP/1.1|Host: x|X y: a||": {400},
    "POST /v1/answer HTTP/1.1|Host: x|Content-Length: +2||{}": {400},
    "POST /v1/answer HTTP/1.1|Host: x|Transfer-Encoding: gzip||{}": {400, 411, 501},
    "POST /v1/answer HTTP/1.1|Host: x|Transfer-Encoding: chunked||zz|": {400},
    "CONNECT example.org:443 HTTP/1.1|Host: example.org||": {400, 404, 405},
    "GET ftp://x/health HTTP/1.1|Host: x||": {200, 400, 404},
    "EHLO example.org||": {400, 0},
}


def attempts() -> Iterator[Attempt]:
    """Yields all attempts of the group."""
    for status, bodies in _BODIES.items():
        for number, body in enumerate(bodies):
            yield _request(f"body-{status}-{number}", _post(body), {status})
    for raw, statuses in _RAW.items():
        yield _request(f"raw-{raw}", raw.replace("|", "\r\n").encode(), statuses)


def _post(body: bytes) -> bytes:
    head = f"POST /v1/answer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
    kind = "Content-Type: application/json\r\nConnection: close\r\n\r\n"
    return f"{head}{kind}".encode() + body


def _request(name: str, request: bytes, statuses: Collection[int]) -> Attempt:
    """Makes a request to the shared server, which must still answer others afterwards."""

    def start(command: list[str], folder: pathlib.Path) -> subprocess.CompletedProcess:
        port = _server(tuple(command))
        text = _sent(port, request)
        after = _sent(port, _post(json.dumps(_GOOD).encode()))
        return subprocess.CompletedProcess(command, 0, text, after)

    def holds(result: subprocess.CompletedProcess, folder: pathlib.Path) -> bool:
        found = re.match(r"HTTP/1\.1 (\d{3}) ", result.stdout)
        status = int(found[1]) if found else 0
        if status not in statuses or " 200 " not in result.stderr[:20]:
            return False
        body = result.stdout.partition("\r\n\r\n")[2]
        try:
            return status < 400 or not body or isinstance(json.loads(body)["error"], str)
        except (ValueError, KeyError, TypeError):
            return False

    return Attempt(name, _SERVE, holds=holds, must_end_well=True, start=start)


def _sent(port: int, request: bytes) -> str:
    """Returns what comes back until the server hangs up or sends nothing more."""
    received = b""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(request)
        with contextlib.suppress(TimeoutError, ConnectionResetError):
            while part := connection.recv(65536):
                received += part
                if b"Connection: close" not in request and b"\r\n\r\n" in received:
                    connection.settimeout(0.3)
    return received.decode("utf-8", "replace")


@functools.cache
def _server(command: tuple[str, ...]) -> int:
    """Starts a server that ends with this process; returns its port."""
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    atexit.register(process.kill)
    for line in process.stderr:
        if found := re.search(r"at http://[^:]+:(\d+); press Ctrl-C to end", line):
            # Its later output must be read, or it would block.
            threading.Thread(target=process.stderr.read, daemon=True).start()
            return int(found[1])
    raise RuntimeError("the server has not begun to serve")
