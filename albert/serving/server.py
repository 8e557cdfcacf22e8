"""The HTTP server, and the socket on which it listens."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import math
import socket
import threading
import time
from collections.abc import Sequence
from typing import Any

import h11
import uvicorn
from starlette.types import ASGIApp

from albert.core.errors import UserError

_BACKLOG = 2048
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_SECONDS_BETWEEN_COMPLAINTS = 60
# Longest time between two requests of a connection. The time for a body is limited by the
# application; that for the head of a request, by a proxy: see deploy/nginx.conf.
_IDLE_SECONDS = 15


def listen(host: str, port: int) -> socket.socket:
    """Returns a listening socket; clients that connect wait until the server starts.

    Raises a `UserError` if the port is in use, or the address does not belong to this machine.
    """
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.create_server(address[:2], family=family, backlog=_BACKLOG)
        # Otherwise the body of an answer waits 40 ms for the acknowledgement of its headers.
        # asyncio does this only for sockets that it makes itself.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener
    except OSError as e:
        raise UserError(
            f"cannot listen at --host {host} --port {port}: {e.strerror}; pass another one"
        ) from e


def is_local(listener: socket.socket) -> bool:
    """Returns whether only this machine can connect."""
    return ipaddress.ip_address(listener.getsockname()[0]).is_loopback


def hosts_of(listener: socket.socket, allowed: Sequence[str] = ()) -> Sequence[str]:
    """Returns the host names that requests may use; empty for any, as with "*" in `allowed`."""
    if not allowed and is_local(listener):
        return ("localhost", "127.0.0.1", "[::1]", _host_of(listener))
    return () if "*" in allowed else allowed


def url_of(listener: socket.socket) -> str:
    """Returns the server's address for a browser."""
    return f"http://{_host_of(listener)}:{listener.getsockname()[1]}"


def _host_of(listener: socket.socket) -> str:
    host = listener.getsockname()[0]
    return f"[{host}]" if ":" in host else host


class HttpServer:
    """A server that runs an application in its own thread."""

    def __init__(self, app: ASGIApp, listener: socket.socket, request_seconds: float):
        """Starts the server on a socket from `listen`; requests take at most `request_seconds`."""
        config = uvicorn.Config(
            app,
            # The other parser, which uvicorn prefers if it is installed, limits no headers.
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            # Messages below errors are only warnings about requests that are not valid HTTP.
            log_level="error",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            backlog=_BACKLOG,
            timeout_keep_alive=_IDLE_SECONDS,
            timeout_graceful_shutdown=math.ceil(request_seconds) + 1,
        )
        self._server = uvicorn.Server(config)
        self._complained = -math.inf
        # Uvicorn installs its signal handlers only in a main thread. In this thread it does not, so
        # the program's own handlers stay.
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve(listener)), daemon=True
        )
        self._thread.start()
        while self._thread.is_alive() and not self._server.started:
            time.sleep(0.01)

    async def _serve(self, listener: socket.socket) -> None:
        asyncio.get_running_loop().set_exception_handler(self._note_fault)
        await self._server.serve([listener])

    def _note_fault(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Logs an error; logs a lack of room for connections, which repeats often, only rarely."""
        error = context.get("exception")
        if isinstance(error, h11.ProtocolError):
            # After an early answer, such as 401, the client sent what is not HTTP.
            return
        if not isinstance(error, OSError) or error.errno not in _NO_ROOM:
            loop.default_exception_handler(context)
        elif time.monotonic() - self._complained >= _SECONDS_BETWEEN_COMPLAINTS:
            self._complained = time.monotonic()
            logging.getLogger(__name__).error(
                "no connection can be accepted: %s; see `ulimit -n`", error.strerror
            )

    def serves(self, seconds: float) -> bool:
        """Waits, and returns whether the server is still running."""
        self._thread.join(seconds)
        return self._thread.is_alive()

    def stop(self) -> None:
        """Accepts no more requests, and returns when all accepted ones are answered."""
        self._server.should_exit = True
        self._thread.join()
