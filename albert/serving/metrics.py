"""The server's metrics for Prometheus."""

from __future__ import annotations

import time

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# nginx's status for a client that disconnected; there is no standard one.
CLIENT_GONE = 499
_SECONDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60)
_SIZES = (1, 2, 4, 8, 16, 32, 64)
# The creation times add nothing to the start time of the process.
disable_created_metrics()


class Metrics:
    """The metrics of one server; the size of batches and the queue are public."""

    def __init__(self):
        """Starts all counters at zero."""
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "albert_requests", "Requests by status.", ["path", "status"], registry=self._registry
        )
        self._seconds = Histogram(
            "albert_answer_seconds",
            "Time from a request to its answer, for requests with an answer.",
            buckets=_SECONDS,
            registry=self._registry,
        )
        self.batch_size = Histogram(
            "albert_batch_size", "Requests per batch.", buckets=_SIZES, registry=self._registry
        )
        self.queue_length = Gauge(
            "albert_queue_length", "Requests in the queue.", registry=self._registry
        )

    def text(self) -> bytes:
        """Returns all metrics in Prometheus' text format."""
        return generate_latest(self._registry)

    def watching(self, app: ASGIApp, paths: frozenset[str]) -> ASGIApp:
        """Returns an application that counts requests by path, with all unknown paths together."""

        async def watched(scope: Scope, receive: Receive, send: Send) -> None:
            start, status = time.perf_counter(), CLIENT_GONE

            async def noted(message: Message) -> None:
                nonlocal status
                status = message.get("status", status)
                await send(message)

            try:
                await app(scope, receive, noted)
            finally:
                path = scope["path"] if scope["path"] in paths else "other"
                self._requests.labels(path, status).inc()
                if scope["method"] == "POST" and status == 200:
                    self._seconds.observe(time.perf_counter() - start)

        return watched
