"""Connections with time limits, which make room for newer ones when there are too many."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from starlette.responses import JSONResponse
from uvicorn.protocols.http.h11_impl import H11Protocol

# Limit on waiting for the head of a request, between two requests, and for a client to read.
IDLE_SECONDS = 15
_CLOSE = {"Connection": "close"}
_BUSY = JSONResponse(
    {"error": "all connections are in use; try again later"}, 503, {**_CLOSE, "Retry-After": "1"}
)


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
