"""Requests to a server, and flags of it."""

from __future__ import annotations

import atexit
import functools
import json
import pathlib
import re
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator

from tests.faults.inputs.attempt import Attempt

_SERVE = ("serve", "{w}/squad", "--port=0", "--max_seconds=5", "--max_bytes=20000")
_GOOD = {"question": "Who?", "context": "A cat sat."}
_TYPE = b"Content-Type: application/json\r\n"
_FLAGS = {
    "port": ("-1", "65536", "x", "1.5", ""),
    "max_bytes": ("0", "-1", "x", "nan"),
    "max_seconds": ("0", "-1", "nan", "x", "inf"),
    "max_queue": ("0", "-1", "x", "1.5"),
    "max_batch": ("0", "-1", "x"),
    "host": ("", "no such host", "999.1.1.1", "0.0.0.0", "::"),
    "no_such": ("1",),
}
# Fields of a request, and the status of the answer.
_FIELDS = {
    "question-null": ({"question": None}, 422),
    "question-number": ({"question": 1}, 422),
    "question-list": ({"question": ["Who?"]}, 422),
    "question-blank": ({"question": " \n"}, 422),
    "question-object": ({"question": {"text": "Who?"}}, 422),
    "context-null": ({"context": None}, 422),
    "context-true": ({"context": True}, 422),
    "context-blank": ({"context": "\t\u00a0\u2003"}, 422),
    "context-list": ({"context": [["A."]]}, 422),
    "n_best-zero": ({"n_best": 0}, 422),
    "n_best-negative": ({"n_best": -3}, 422),
    "n_best-text": ({"n_best": "3"}, 422),
    "n_best-true": ({"n_best": True}, 422),
    "n_best-half": ({"n_best": 1.5}, 422),
    "n_best-null": ({"n_best": None}, 422),
    "n_best-list": ({"n_best": [1]}, 422),
    "field-unknown": ({"passage": "x"}, 422),
    "field-of-glue": ({"text": "x"}, 422),
    "field-empty-name": ({"": 1}, 422),
    "field-proto": ({"__proto__": {}}, 422),
    "field-case": ({"Question": "Who?"}, 422),
    "emoji": ({"question": "\U0001f600" * 20}, 200),
    "rtl": ({"context": "\u202e\u05d0\u05d1 cat \u202c."}, 200),
    "combining": ({"context": "e" + "\u0301" * 500}, 200),
    "nul": ({"context": "A\0cat sat."}, 200),
    "long-word": ({"context": "a" * 5000}, 200),
    "long-question": ({"question": "who " * 2000}, 200),
    "html": ({"context": "<script>alert(1)</script>"}, 200),
}
# Bodies, and the status of the answer.
_BODIES = {
    "empty": (b"", 400),
    "list": (b"[]", 422),
    "text": (b'"x"', 422),
    "null": (b"null", 422),
    "two": (b"{}{}", 400),
    "half": (b'{"question": "Wh', 400),
    "single-quotes": (b"{'question': 'Who?'}", 400),
    "comma": (b'{"question": "Who?",}', 400),
    "comment": (b"/* a */ {}", 400),
    "utf-16": (json.dumps(_GOOD).encode("utf-16"), 400),
    "latin-1": (b'{"question": "\xe9", "context": "x"}', 400),
    "overlong": (b'{"question": "\xc0\xaf", "context": "x"}', 400),
    "form": (b"question=Who&context=x", 400),
    "xml": (b"<?xml version='1.0'?><a/>", 400),
    "binary": (bytes(range(256)), 400),
    "too-large": (b'{"context": "' + b"a" * 30_000 + b'"}', 413),
}
# Requests as they stand, and the statuses of which the answer has one; 0: it hangs up.
_RAW = {
    "method-put": (b"PUT /v1/answer HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", {405}),
    "method-none": (b" / HTTP/1.1\r\nHost: x\r\n\r\n", {400}),
    "method-lower": (b"get /health HTTP/1.1\r\nHost: x\r\n\r\n", {400, 405}),
    "http-0.9": (b"GET /health\r\n\r\n", {400, 0}),
    "http-3.7": (b"GET /health HTTP/3.7\r\nHost: x\r\n\r\n", {200, 400, 505}),
    "tab-in-line": (b"GET\t/health\tHTTP/1.1\r\nHost: x\r\n\r\n", {400}),
    "nul-in-path": (b"GET /health%00 HTTP/1.1\r\nHost: x\r\n\r\n", {404}),
    "dots": (b"GET /../../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n", {400, 404}),
    "double-slash": (b"GET //health HTTP/1.1\r\nHost: x\r\n\r\n", {404}),
    "bad-escape": (b"GET /%zz%u0041 HTTP/1.1\r\nHost: x\r\n\r\n", {400, 404}),
    "folded-header": (b"GET /health HTTP/1.1\r\nHost: x\r\nX: a\r\n b\r\n\r\n", {200, 400}),
    "space-in-name": (b"GET /health HTTP/1.1\r\nHost: x\r\nX y: a\r\n\r\n", {400}),
    "no-colon": (b"GET /health HTTP/1.1\r\nHost: x\r\nnothing\r\n\r\n", {400}),
    "length-plus": (b"POST /v1/answer HTTP/1.1\r\nHost: x\r\nContent-Length: +2\r\n\r\n{}", {400}),
    "length-hex": (b"POST /v1/answer HTTP/1.1\r\nHost: x\r\nContent-Length: 0x2\r\n\r\n{}", {400}),
    "encoding-gzip": (
        b"POST /v1/answer HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n{}",
        {400, 411, 501},
    ),
    "chunk-size-bad": (
        b"POST /v1/answer HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        {400},
    ),
    "connect": (b"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org\r\n\r\n", {400, 404, 405}),
    "other-scheme": (b"GET ftp://x/health HTTP/1.1\r\nHost: x\r\n\r\n", {200, 400, 404}),
    "smtp": (b"EHLO example.org\r\n\r\n", {400, 0}),
}
_TYPES = ("text/plain", "application/xml", "multipart/form-data; boundary=x", "json", "a/b;" * 50)


def attempts() -> Iterator[Attempt]:
    """All of the group."""
    for flag, values in _FLAGS.items():
        for value in values:
            command = ("serve", "{w}/squad", f"--{flag}={value}")
            yield Attempt(f"flag-{flag}={value}", command, f"{flag}|ALBERT_TOKEN")
    for name, place in {"none": "{t}/none", "data": "{w}/RACE", "file": "{w}/albert.json"}.items():
        yield Attempt(f"folder-{name}", ("serve", place, "--port=0"), "none|RACE|albert.json")
    for name, (fields, status) in _FIELDS.items():
        body = json.dumps({**_GOOD, **fields}).encode()
        yield _request(f"fields-{name}", _post(body), {status})
    for name, (body, status) in _BODIES.items():
        yield _request(f"body-{name}", _post(body), {status})
    for name, (raw, statuses) in _RAW.items():
        yield _request(f"raw-{name}", raw, statuses)
    for content_type in _TYPES:
        request = _post(json.dumps(_GOOD).encode(), f"Content-Type: {content_type}\r\n".encode())
        yield _request(f"type-{content_type[:12]}", request, {415})


def _post(body: bytes, headers: bytes = _TYPE) -> bytes:
    start = b"POST /v1/answer HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
    return start + headers + b"Content-Length: %d\r\n\r\n" % len(body) + body


def _request(name: str, request: bytes, statuses: set[int]) -> Attempt:
    """Something sent to the server; the answer's status, its form, and that others are answered."""

    def start(command: list[str], folder: pathlib.Path) -> subprocess.CompletedProcess:
        port = _server(tuple(command))
        text = _sent(port, request)
        after = _sent(port, _post(json.dumps(_GOOD).encode()))
        if " 200 " not in after[:20]:
            text += f"\nno answer to others: {after}"
        return subprocess.CompletedProcess(command, 0, text, "")

    return Attempt(name, _SERVE, holds=_answered(statuses), must_end_well=True, start=start)


def _answered(statuses: set[int]) -> Callable[[subprocess.CompletedProcess, pathlib.Path], bool]:
    def holds(result: subprocess.CompletedProcess, folder: pathlib.Path) -> bool:
        found = re.match(r"HTTP/1\.1 (\d{3}) ", result.stdout)
        status = int(found[1]) if found else 0
        if status not in statuses or "no answer to others" in result.stdout:
            return False
        if status < 400:
            return True
        body = result.stdout.partition("\r\n\r\n")[2]
        try:
            return isinstance(json.loads(body)["error"], str)
        except (ValueError, KeyError, TypeError):
            return not body

    return holds


def _sent(port: int, request: bytes) -> str:
    """What comes back until the server hangs up or says nothing more."""
    received = b""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(request)
        connection.settimeout(20)
        try:
            while part := connection.recv(65536):
                received += part
                if b"Connection: close" not in request and b"\r\n\r\n" in received:
                    connection.settimeout(0.3)
        except (TimeoutError, ConnectionResetError):
            pass
    return received.decode("utf-8", "replace")


@functools.cache
def _server(command: tuple[str, ...]) -> int:
    """Starts a server that ends with this process; returns its port."""
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    atexit.register(process.kill)
    for line in process.stderr:
        if found := re.search(r"at http://[^:]+:(\d+); Ctrl-C ends", line):
            # What it prints later is read, or it would wait for that.
            threading.Thread(target=process.stderr.read, daemon=True).start()
            return int(found[1])
    raise RuntimeError("the server has not begun to serve")
