"""The paths of a server, and what stands between a request and the model: limits and the token."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from runtime.version import VERSION
from serving import fields
from serving.batches import Batcher, Refused
from serving.metrics import CLIENT_GONE, Metrics
from serving.openapi import describe
from serving.page import page_of
from serving.services import Service

Endpoint = Callable[[Request], Awaitable[Response]]
_RETRY_SECONDS = 1


class Limits(NamedTuple):
    """What a server takes.

    Attributes:
      body_bytes: of a request.
      seconds: for a body to come, and for the answer.
      waiting: requests that wait for the model.
      together: requests that go through it together.
    """

    body_bytes: int = 200_000
    seconds: float = 30.0
    waiting: int = 64
    together: int = 8


class Api:
    """Answers over HTTP."""

    def __init__(self, service: Service, task: str, limits: Limits, token: str = ""):
        """Starts the thread that calls the model.

        Args:
          service: what is answered.
          task: of the model.
          limits: of requests.
          token: that requests must have; empty if none.
        """
        self._service, self._task, self._limits, self._token = service, task, limits, token
        self._metrics = Metrics()
        self._batcher = Batcher(
            service.answer_all, limits.waiting, limits.together, self._metrics.note_batch
        )
        self._metrics.ask_queue_length(lambda: self._batcher.waiting)
        self._description = describe(service, task, bool(token))
        self._page, self._page_headers = page_of(service, task)

    def close(self) -> None:
        """Returns when all that was taken is answered."""
        self._batcher.close()

    def app(self) -> ASGIApp:
        """Returns the application."""
        guarded: dict[str, tuple[Endpoint, str]] = {
            "/v1/answer": (self._answer, "POST"),
            "/openapi.json": (self._openapi, "GET"),
            "/metrics": (self._counted, "GET"),
        }
        # A probe and a browser's address have no token, and these say nothing of texts.
        public: dict[str, tuple[Endpoint, str]] = {
            "/": (self._show_page, "GET"),
            "/health": (self._health, "GET"),
        }
        routes = [
            *(Route(path, self._guarded(f), methods=[m]) for path, (f, m) in guarded.items()),
            *(Route(path, f, methods=[m]) for path, (f, m) in public.items()),
        ]
        app = Starlette(routes=routes, exception_handlers={HTTPException: _fault})
        return self._metrics.watching(app, frozenset({*guarded, *public}))

    def _guarded(self, endpoint: Endpoint) -> Endpoint:
        expected = f"Bearer {self._token}".encode()

        async def guarded(request: Request) -> Response:
            given = request.headers.get("authorization", "").encode()
            if self._token and not hmac.compare_digest(given, expected):
                header = {"WWW-Authenticate": "Bearer"}
                raise HTTPException(401, "send the header Authorization: Bearer TOKEN", header)
            return await endpoint(request)

        return guarded

    async def _show_page(self, request: Request) -> Response:
        return Response(self._page, media_type="text/html", headers=self._page_headers)

    async def _health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok", "task": self._task, "version": VERSION})

    async def _openapi(self, request: Request) -> Response:
        return JSONResponse(self._description)

    async def _counted(self, request: Request) -> Response:
        return Response(self._metrics.text(), media_type=CONTENT_TYPE_LATEST)

    async def _answer(self, request: Request) -> Response:
        try:
            asked = _read(await self._body(request), self._service)
            return JSONResponse(await self._answered(request, asked))
        except ClientDisconnect:
            # Nobody reads it; it is for the numbers.
            return Response(status_code=CLIENT_GONE)

    async def _body(self, request: Request) -> bytes:
        kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
        if kind != "application/json":
            raise HTTPException(415, "the body must have the type application/json")
        most = self._limits.body_bytes
        too_large = HTTPException(413, f"the body is larger than {most} bytes, the server's limit")
        if int(request.headers.get("content-length", 0)) > most:
            raise too_large

        async def collected() -> bytes:
            body = bytearray()
            async for part in request.stream():
                body += part
                if len(body) > most:
                    raise too_large
            return bytes(body)

        try:
            return await asyncio.wait_for(collected(), self._limits.seconds)
        except asyncio.TimeoutError:
            limit = f"{self._limits.seconds:g} seconds"
            raise HTTPException(408, f"the body did not come within {limit}") from None

    async def _answered(self, request: Request, asked: Any) -> Any:
        """Returns the answer.

        Raises:
          HTTPException: there is no room, or no answer in time.
          ClientDisconnect: nobody waits for it any more.
        """
        try:
            answer = asyncio.wrap_future(self._batcher.submit(asked))
        except Refused as e:
            raise HTTPException(503, str(e), {"Retry-After": str(_RETRY_SECONDS)}) from None
        gone = asyncio.ensure_future(_end_of_connection(request))
        try:
            await asyncio.wait(
                {answer, gone}, timeout=self._limits.seconds, return_when=asyncio.FIRST_COMPLETED
            )
            if answer.done():
                return answer.result()
            if gone.done():
                raise ClientDisconnect
            raise HTTPException(504, f"there was no answer in {self._limits.seconds:g} seconds")
        except (HTTPException, ClientDisconnect):
            raise
        except Exception:
            logging.getLogger(__name__).exception("no answer to a request")
            raise HTTPException(500, "the model failed; see the server's log") from None
        finally:
            # What still waits leaves the queue.
            answer.cancel()
            gone.cancel()


async def _end_of_connection(request: Request) -> None:
    """Waits for the client to hang up; behind the body nothing else is to come."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _read(body: bytes, service: Service) -> Any:
    try:
        value = json.loads(body.decode())
    except UnicodeDecodeError as e:
        raise HTTPException(400, f"the body is not UTF-8: byte {e.start}") from None
    # A number of very many digits is one error, a nesting of very many levels the other.
    except (ValueError, RecursionError) as e:
        raise HTTPException(400, f"the body is not JSON: {e}") from None
    try:
        return fields.read(value, service.fields)
    except fields.Unfit as e:
        raise HTTPException(422, str(e)) from None


async def _fault(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)
