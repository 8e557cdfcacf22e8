"""deploy/nginx.conf: an nginx with this configuration, in front of a server."""

import asyncio
import contextlib
import http.client
import json
import re
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator

import pytest
from starlette.responses import JSONResponse

from albert.cli import serve
from albert.serving.server import HttpServer, listen, url_of
from tests.helpers.files import write_files
from tests.helpers.forking import ROOT
from tests.helpers.running import run
from tests.helpers.serving import LONGEST, until

FILE = ROOT / "deploy" / "nginx.conf"
# Few connections, which clients soon use up.
MAIN = """
daemon off;
master_process off;
pid nginx.pid;
error_log stderr;
events { worker_connections 64; }
http {
    access_log off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    include albert.conf;
}
"""
HEAD = b"%s HTTP/1.1\r\nHost: answers.example\r\nAuthorization: Bearer secret\r\n"
GET = HEAD % b"GET /" + b"\r\n"
BODY = b"Content-Length: %d\r\n\r\n"


class Application:
    """Answers with headers of the request; under /wait when allowed, under /large with 20 MB."""

    def __init__(self):
        self.may, self.paths = asyncio.Event(), []

    async def __call__(self, scope, receive, send):
        self.paths.append(scope["path"])
        while (await receive()).get("more_body"):
            pass
        while scope["path"] == "/wait" and not self.may.is_set():
            await asyncio.sleep(0.01)
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        large = {"filling": "x" * 20_000_000} if scope["path"] == "/large" else {}
        await JSONResponse(headers | large)(scope, receive, send)


@pytest.fixture
def app() -> Application:
    return Application()


@pytest.fixture
def connect(app, nginx, tmp_path, request) -> Iterator[Callable[..., socket.socket]]:
    """Starts the application behind nginx; yields a function that connects to nginx and sends
    something. The time limits of the configuration are those of the parameter."""
    listener = listen("127.0.0.1", 0)
    text = FILE.read_text(encoding="utf-8")
    for there, here in (
        ("listen 443 ssl", "listen unix:https ssl"),
        ("/etc/nginx/albert.", "albert."),
        ("http://127.0.0.1:8080", url_of(listener)),
        ("15s", getattr(request, "param", f"{LONGEST}s")),
    ):
        assert there in text
        text = text.replace(there, here)
    write_files(tmp_path, {"nginx.conf": MAIN, "albert.conf": text})
    options = "-x509 -newkey rsa:2048 -nodes -subj /CN=a -addext subjectAltName=DNS:answers.example"
    options += " -keyout albert.key -out albert.pem"
    made = run(["openssl", "req", *options.split()], cwd=tmp_path)
    assert made.returncode == 0
    trusting = ssl.create_default_context(cafile=tmp_path / "albert.pem")
    with contextlib.ExitStack() as stack:
        server = HttpServer(app, listener, 1.0)
        stack.callback(server.stop)
        command = [nginx, "-e", "stderr", "-p", f"{tmp_path}/", "-c", "nginx.conf"]
        process = stack.enter_context(subprocess.Popen(command, cwd=tmp_path))
        stack.callback(process.kill)
        until((tmp_path / "nginx.pid").exists)

        def connect(sent: bytes = b"", secure: bool = True) -> socket.socket:
            opened = stack.enter_context(socket.socket(socket.AF_UNIX))
            opened.settimeout(LONGEST)
            opened.connect(str(tmp_path / "https"))
            if secure:
                name = "answers.example"
                opened = stack.enter_context(trusting.wrap_socket(opened, server_hostname=name))
            opened.sendall(sent)
            return opened

        yield connect
        app.may.set()


def answer_of(connection: socket.socket) -> tuple[int, bytes]:
    """Returns the status and the body of an answer; 0 if the connection was closed instead."""
    with contextlib.suppress(ConnectionError), http.client.HTTPResponse(connection) as response:
        response.begin()
        return response.status, response.read()
    return 0, b""


def test_requests_arrive_with_token_and_host(connect):
    status, body = answer_of(connect(GET))
    headers = json.loads(body)
    assert (status, headers["host"]) == (200, "answers.example")
    assert headers["authorization"] == "Bearer secret"


@pytest.mark.parametrize("connect", ["1s"], indirect=True)
def test_slow_clients_are_disconnected_and_do_not_reach_the_server(app, connect):
    slow = [b"", GET[:-2], HEAD % b"POST /slow" + BODY % 100 + b"half"]
    for connection in [connect(sent) for sent in slow]:
        assert answer_of(connection)[0] in (0, 408)
    assert app.paths == []
    large = connect(HEAD % b"GET /large" + b"\r\n")
    received, ended = 0, connect(GET)
    assert answer_of(ended)[0] == 200
    # Closed between two requests; by then, `large` has not read for as long.
    assert ended.recv(1) == b""
    with contextlib.suppress(OSError):
        while part := large.recv(1 << 20):
            received += len(part)
    assert received < 20_000_000


def test_idle_connections_do_not_keep_others_out(connect):
    idle = [connect(secure=False) for _ in range(100)]
    assert answer_of(connect(GET))[0] == 200
    assert idle[0].recv(1) == b"", "the one that has been idle longest was closed"


def test_one_address_has_20_requests_at_a_time_of_limited_size(app, connect):
    waiting = [connect(HEAD % b"GET /wait" + b"\r\n") for _ in range(20)]
    until(lambda: len(app.paths) == 20)
    assert answer_of(connect(GET))[0] == 503
    app.may.set()
    assert [answer_of(connection)[0] for connection in waiting] == [200] * 20
    assert answer_of(connect(HEAD % b"POST /" + BODY % 300_000))[0] == 413
    assert app.paths == ["/wait"] * 20


def test_the_limits_fit_those_of_the_server():
    text, args = FILE.read_text(encoding="utf-8"), serve.parse(["albert serve", "MODEL"])
    assert f"http://{args.host}:{args.port};" in text
    assert int(re.search(r"client_max_body_size (\d+)k;", text)[1]) * 1024 >= args.max_bytes
    assert int(re.search(r"proxy_read_timeout (\d+)s;", text)[1]) > args.max_seconds
