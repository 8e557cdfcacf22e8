"""The paths of a server, its limits on requests, and the check of the token."""

from __future__ import annotations

import asyncio
import functools
import hmac
import itertools
import logging
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from albert.core.errors import UserError
from albert.core.files import parse_json
from albert.core.version import VERSION
from albert.serving.batches import Batcher, RequestRefused
from albert.serving.metrics import CLIENT_GONE, Metrics
from albert.serving.page import page_of
from albert.serving.services import EmbedService, Pause, Service, read

Endpoint = Callable[[Request], Awaitable[Response]]
_RETRY_SECONDS = 1
# Longest time that a long request waits for short ones between two of its windows.
_YIELD_SECONDS = 0.1
_NO_PATH = "there is no such path; send requests to POST /v1/answer or /v1/embed"
_log = logging.getLogger(__name__)


class Limits(NamedTuple):
    """The limits on requests: the body's size, and the seconds to receive it, and to answer it.

    `waiting` limits the queues of short and of long requests, which have more windows than
    `together`, the limit of a batch.
    """

    body_bytes: int = 200_000
    seconds: float = 30.0
    waiting: int = 64
    together: int = 8


class Api:
    """The HTTP interface of a service."""

    def __init__(
        self,
        service: Service,
        task: str,
        limits: Limits,
        token: str = "",
        hosts: Sequence[str] = (),
        computing: Mapping[str, str] = {},
    ):
        """Takes the service; an empty `token` or empty `hosts` do not limit requests.

        `computing` is what /health reports in addition to the task.
        """
        self._services, self._limits = [service], limits
        if not isinstance(service, EmbedService):
            self._services.append(EmbedService(service.model))
        self._token, self._hosts = token, frozenset(hosts)
        self._health_values = {"status": "ok", "task": task, "version": VERSION, **computing}
        self._metrics = Metrics()
        sizes, note = (limits.waiting, limits.together), self._metrics.batch_size.observe
        self._short = Batcher(_answer_all, *sizes, note)
        # Long requests have their own queue, so no short request waits for one.
        give_way = functools.partial(self._short.idle.wait, _YIELD_SECONDS)
        self._long = Batcher(_answer_all, *sizes, note, give_way)
        self._metrics.queue_length.set_function(lambda: self._short.waiting + self._long.waiting)
        self._page, self._page_headers = page_of(service, task, shows_data=not token)

    def app(self) -> ASGIApp:
        """Returns the ASGI application."""
        # Probes have no token and use any host name; a browser's first request has no token.
        # Neither the probes' answers nor, with a token, the page reveal texts.
        endpoints: dict[str, tuple[Endpoint, str]] = {
            **{
                one.path: (self._guarded(functools.partial(self._answer, one)), "POST")
                for one in self._services
            },
            "/": (self._guarded(self._show_page, token=False), "GET"),
            "/metrics": (self._guarded(self._counted, host=False), "GET"),
            "/health": (self._health, "GET"),
        }
        routes = [Route(path, f, methods=[method]) for path, (f, method) in endpoints.items()]
        handlers = {HTTPException: _fault, UserError: _failed, Exception: _broken}
        app = Starlette(routes=routes, exception_handlers=handlers)
        # A redirect would go to whichever host the request names.
        app.router.redirect_slashes = False
        return self._metrics.watching(app, frozenset(endpoints))

    def _guarded(self, endpoint: Endpoint, host: bool = True, token: bool = True) -> Endpoint:
        """Refuses requests without the token, or with a host name other than the server's.

        The latter may come from other sites, by DNS rebinding.
        """
        expected = f"Bearer {self._token}".encode()

        async def checked(request: Request) -> Response:
            name = request.headers.get("host", "")
            if host and self._hosts and re.sub(r":\d*$", "", name).lower() not in self._hosts:
                raise HTTPException(421, f"the host {name!r} is not named in --allowed_hosts")
            header = request.headers.get("authorization", "").encode()
            if token and self._token and not hmac.compare_digest(header, expected):
                headers = {"WWW-Authenticate": "Bearer"}
                raise HTTPException(401, "send the header Authorization: Bearer TOKEN", headers)
            return await endpoint(request)

        return checked

    async def _show_page(self, request: Request) -> Response:
        return Response(self._page, media_type="text/html", headers=self._page_headers)

    async def _health(self, request: Request) -> Response:
        return JSONResponse(self._health_values)

    async def _counted(self, request: Request) -> Response:
        return Response(self._metrics.text(), media_type=CONTENT_TYPE_LATEST)

    async def _answer(self, service: Service, request: Request) -> Response:
        try:
            body = await self._body(request)
            answer = await self._answered(service, request, body)
        except ClientDisconnect:
            # The client is gone, so this status only counts in the metrics.
            return Response(status_code=CLIENT_GONE)
        try:
            return JSONResponse(answer)
        except ValueError:
            raise UserError(
                "the answer contains NaN or infinity; the model's weights may be damaged"
            ) from None

    async def _body(self, request: Request) -> bytes:
        kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
        if kind != "application/json":
            raise HTTPException(415, "the body must have the type application/json")
        if coding := request.headers.get("content-encoding", "identity").replace("identity", ""):
            raise HTTPException(415, f"Content-Encoding {coding} is not supported; send plain JSON")
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
            raise HTTPException(408, f"the body did not arrive within {limit}") from None

    async def _answered(self, service: Service, request: Request, body: bytes) -> Any:
        """Returns the answer; raises `HTTPException` or, if the client left, `ClientDisconnect`."""
        values, is_list = _read(body, service)
        # A text of a list has at least one window.
        windows = service.windows(len(body)) + max(len(values) - 1, 0)
        batcher = self._short if windows <= self._limits.together else self._long
        try:
            answer = batcher.submit((service, values), windows)
        except RequestRefused as e:
            raise HTTPException(503, str(e), {"Retry-After": str(_RETRY_SECONDS)}) from None
        gone = asyncio.ensure_future(_end_of_connection(request))
        try:
            await asyncio.wait(
                {answer, gone}, timeout=self._limits.seconds, return_when=asyncio.FIRST_COMPLETED
            )
            if answer.done():
                return answer.result() if is_list else answer.result()[0]
            if gone.done():
                raise ClientDisconnect
            raise HTTPException(504, f"no answer within {self._limits.seconds:g} seconds")
        finally:
            # A waiting request leaves the queue; one that is being computed is abandoned.
            answer.cancel()
            gone.cancel()


async def _end_of_connection(request: Request) -> None:
    """Waits until the client disconnects; it sends nothing else after the body."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _answer_all(
    requests: Sequence[tuple[Service, Sequence[Mapping[str, Any]]]], pause: Pause
) -> list[list[dict[str, Any]]]:
    """Answers requests, each with the values for a service, and all for a service together."""
    answers: dict[Service, Iterator[dict[str, Any]]] = {}
    for service in {service for service, _ in requests}:
        together = [value for one, values in requests if one is service for value in values]
        answers[service] = iter(service.answer_all(together, pause))
    return [list(itertools.islice(answers[service], len(values))) for service, values in requests]


def _read(body: bytes, service: Service) -> tuple[list[dict[str, Any]], bool]:
    """Returns the values of a request, and whether it is a list; raises an `HTTPException`."""
    try:
        value = parse_json(body, "the body")
    except UserError as e:
        raise HTTPException(400, str(e)) from None
    if not isinstance(value, list):
        return [read(value, service.fields)], False
    values = []
    for number, one in enumerate(value):
        try:
            values.append(read(one, service.fields))
        except HTTPException as e:
            raise HTTPException(e.status_code, f"element {number}: {e.detail}") from None
    return values, True


async def _fault(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    detail = _NO_PATH if error.status_code == 404 else error.detail
    return JSONResponse({"error": detail}, error.status_code, error.headers)


async def _failed(request: Request, error: Exception) -> Response:
    _log.error("a request failed: %s", error)
    return JSONResponse({"error": str(error)}, 500)


async def _broken(request: Request, error: Exception) -> Response:
    """Answers after an unexpected error; uvicorn logs it and closes the connection."""
    content = {"error": "the model failed; see the server's log"}
    return JSONResponse(content, 500, {"Connection": "close"})
