"""The HTTP server, the socket on which it listens, and its connections."""

from __future__ import annotations

import asyncio
import errno
import functools
import ipaddress
import logging
import math
import resource
import socket
import threading
import time
from collections.abc import Sequence
from typing import Any

import h11
import uvicorn
from starlette.responses import JSONResponse
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from albert.core.errors import UserError

_MOST_CONNECTIONS = 512
# Connections that wait to be accepted, and connections accepted at a time. An accepted connection
# uses a file before another one can be closed to make room.
_BACKLOG, _ACCEPTED_TOGETHER = 2048, 8
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_SECONDS_BETWEEN_COMPLAINTS = 60
# Limit on waiting for the head of a request, between two requests, and for a client to read.
IDLE_SECONDS = 15
_CLOSE = {"Connection": "close"}
_BUSY = JSONResponse(
    {"error": "all connections are in use; try again later"}, 503, {**_CLOSE, "Retry-After": "1"}
)


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
        if e.errno == errno.EADDRINUSE:
            raise UserError(
                f"--port {port} of {host} is in use by another program; pass another --port"
            ) from e
        raise UserError(f"cannot listen at --host {host} --port {port}: {e.strerror}") from e


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


class Connection(H11Protocol):
    """A connection of uvicorn that cannot keep the server waiting forever.

    The connection waits for its client until a request is complete, and while the client reads the
    answer. It is closed if that takes too long. The body of a request has a separate time limit.
    """

    def __init__(self, most: int, waiting: dict[Connection, None], **kwargs: Any):
        """Takes the most connections, and those that wait for their clients, the longest first."""
        super().__init__(**kwargs)
        self._most, self._waiting = most, waiting
        self._timer: asyncio.TimerHandle | None = None

    # The narrower type of the argument is that of uvicorn and of asyncio's stream protocols.
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Aborts the connection that has waited longest if there are too many."""
        super().connection_made(transport)
        self._update()
        if len(self.connections) > self._most:
            longest = next(iter(self._waiting))
            if longest is self:
                self.app = _BUSY
            else:
                longest.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops the timer."""
        super().connection_lost(exc)
        self._stop_waiting()

    def data_received(self, data: bytes) -> None:
        """Handles data from the client."""
        super().data_received(data)
        self._update()

    def on_response_complete(self) -> None:
        """Starts to wait for the next request."""
        self._stop_waiting()
        super().on_response_complete()
        self._update()

    def pause_writing(self) -> None:
        """Starts the timer, because the client does not read the answer."""
        super().pause_writing()
        self._update()

    def resume_writing(self) -> None:
        """Stops the timer, because the client reads the answer."""
        super().resume_writing()
        self._update()

    def send_400_response(self, msg: str) -> None:
        """Answers that the request is invalid, unless an answer has already begun."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            response = JSONResponse({"error": "the request is not valid HTTP"}, 400, _CLOSE)
            head = h11.Response(
                status_code=400, headers=response.raw_headers, reason=b"Bad Request"
            )
            for event in (head, h11.Data(data=bytes(response.body)), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event))
        self.transport.close()

    def abort(self) -> None:
        """Closes the connection immediately."""
        self._stop_waiting()
        self.transport.abort()

    @property
    def _is_answering(self) -> bool:
        """Returns whether a request has begun and its answer is not complete."""
        return self.cycle is not None and not self.cycle.response_complete

    def _update(self) -> None:
        if self._is_answering and not self.cycle.more_body and not self.flow.write_paused:
            self._stop_waiting()
        elif self not in self._waiting:
            self._waiting[self] = None
            self._timer = self.loop.call_later(IDLE_SECONDS, self._expire)

    def _stop_waiting(self) -> None:
        self._waiting.pop(self, None)
        if self._timer:
            self._timer.cancel()

    def _expire(self) -> None:
        if not self._is_answering or self.flow.write_paused:
            self.abort()


def most_connections() -> int:
    """Returns the maximum number of connections, which leaves files for other purposes."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST_CONNECTIONS if files < 0 else min(_MOST_CONNECTIONS, files // 2)


class HttpServer:
    """A server that runs an application in its own thread."""

    def __init__(self, app: ASGIApp, listener: socket.socket, request_seconds: float):
        """Starts the server on a socket from `listen`; requests take at most `request_seconds`."""
        config = uvicorn.Config(
            app,
            # Uvicorn only calls this, in the same way as the class.
            http=functools.partial(Connection, most_connections(), {}),  # type: ignore[arg-type]
            ws="none",
            lifespan="off",
            log_config=None,
            # Messages below errors are only warnings about requests that are not valid HTTP.
            log_level="error",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            backlog=_ACCEPTED_TOGETHER,
            timeout_keep_alive=IDLE_SECONDS,
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
        # asyncio uses uvicorn's backlog both for connections that wait and for those accepted at a
        # time. This sets the first to its own value.
        listener.listen(_BACKLOG)

    async def _serve(self, listener: socket.socket) -> None:
        asyncio.get_running_loop().set_exception_handler(self._note_fault)
        await self._server.serve([listener])

    def _note_fault(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Logs an error; logs a lack of room for connections, which repeats often, only rarely."""
        error = context.get("exception")
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
