"""Connections that give way: to time, and to newer ones where there are too many."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from starlette.responses import JSONResponse
from uvicorn.protocols.http.h11_impl import H11Protocol

# For the head of a request to come, between two requests, and for an answer to be fetched.
IDLE_SECONDS = 15
_CLOSE = {"Connection": "close"}
_BUSY = JSONResponse(
    {"error": "all connections are in use; try again later"}, 503, {**_CLOSE, "Retry-After": "1"}
)


class Connection(H11Protocol):
    """A connection of uvicorn's that cannot keep the server waiting for ever.

    It waits for its client until a request is complete, and while an answer is fetched. If that
    takes too long it is closed; a body has a time limit of its own.
    """

    def __init__(self, most: int, waiting: dict[Connection, None], **kwargs: Any):
        """Prepares a connection.

        Args:
          most: connections that the server has at a time.
          waiting: those that wait for their clients, the longest first; shared by all.
          **kwargs: uvicorn's.
        """
        super().__init__(**kwargs)
        self._most, self._waiting = most, waiting
        self._timer: asyncio.TimerHandle | None = None

    # As in uvicorn, and in asyncio's own protocols of streams.
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Makes room for itself."""
        super().connection_made(transport)
        self._update()
        if len(self.connections) > self._most:
            longest = next(iter(self._waiting))
            if longest is self:
                self.app = _BUSY
            else:
                longest.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Frees its place."""
        super().connection_lost(exc)
        self._stop_waiting()

    def data_received(self, data: bytes) -> None:
        """Reads on."""
        super().data_received(data)
        self._update()

    def on_response_complete(self) -> None:
        """Begins to wait for the next request."""
        self._stop_waiting()
        super().on_response_complete()
        self._update()

    def pause_writing(self) -> None:
        """Notes that the client does not fetch its answers."""
        super().pause_writing()
        self._update()

    def resume_writing(self) -> None:
        """Notes that the client fetches its answers."""
        super().resume_writing()
        self._update()

    def send_400_response(self, msg: str) -> None:
        """Says that the request is none, unless an answer is on its way already."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            response = JSONResponse({"error": "the request is not valid HTTP"}, 400, _CLOSE)
            head = h11.Response(
                status_code=400, headers=response.raw_headers, reason=b"Bad Request"
            )
            for event in (head, h11.Data(data=bytes(response.body)), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event))
        self.transport.close()

    def abort(self) -> None:
        """Closes it at once."""
        self._stop_waiting()
        self.transport.abort()

    @property
    def _is_answering(self) -> bool:
        """Tells whether a request has begun and its answer is not complete."""
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
