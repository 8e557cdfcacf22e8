"""The HTTP server itself, and the socket that it listens at."""

from __future__ import annotations

import errno
import ipaddress
import math
import socket
import threading
import time

import uvicorn
from starlette.types import ASGIApp

from runtime.errors import UserError

# Each is a file descriptor, of which a process usually has 1024.
_MOST_CONNECTIONS = 512


def listen(host: str, port: int) -> socket.socket:
    """Returns a socket that listens; who connects waits until it is served.

    Raises:
      UserError: the port is in use, or the address is none of this machine.
    """
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=2048)
    except OSError as e:
        if e.errno == errno.EADDRINUSE:
            raise UserError(
                f"--port {port} of {host} is in use by another program; give another --port"
            ) from e
        raise UserError(f"cannot listen at --host {host} --port {port}: {e.strerror}") from e


def is_local(listener: socket.socket) -> bool:
    """Tells whether only this machine can connect."""
    return ipaddress.ip_address(listener.getsockname()[0]).is_loopback


def url_of(listener: socket.socket) -> str:
    """Returns the address for a browser."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class HttpServer:
    """Serves an application in a thread of its own."""

    def __init__(self, app: ASGIApp, listener: socket.socket, request_seconds: float):
        """Starts to serve.

        Args:
          app: the application.
          listener: what `listen` returns.
          request_seconds: the longest that a request takes.
        """
        config = uvicorn.Config(
            app,
            **{"http": "h11", "ws": "none", "loop": "asyncio", "lifespan": "off"},
            **{"log_config": None, "log_level": "warning", "access_log": False},
            proxy_headers=False,
            server_header=False,
            limit_concurrency=_MOST_CONNECTIONS,
            timeout_graceful_shutdown=math.ceil(request_seconds) + 1,
        )
        self._server = uvicorn.Server(config)
        # Its own handlers of signals are for a main thread: here this program's own stay.
        self._thread = threading.Thread(target=self._server.run, args=([listener],), daemon=True)
        self._thread.start()
        while self._thread.is_alive() and not self._server.started:
            time.sleep(0.01)

    def serves(self, seconds: float) -> bool:
        """Waits, and tells whether it still serves."""
        self._thread.join(seconds)
        return self._thread.is_alive()

    def stop(self) -> None:
        """Takes nothing more, and returns when what was taken is answered."""
        self._server.should_exit = True
        self._thread.join()
