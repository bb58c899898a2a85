"""Metrics of a server in Prometheus' format, and its access log; neither contains anything that a client sent."""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# Routes of requests that have no route: their paths come from clients.
NO_ROUTE = "none"
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 1, 2, 5, 10, 30, 60)
_LOG = logging.getLogger(__name__)


class Metrics:
    """The metrics of one server.

    Attributes:
        registry: the registry, which contains nothing else.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=True)
        ProcessCollector(registry=self.registry)
        self._requests = Counter(
            "dragoman_requests", "Requests that were answered.", ["route", "status"], registry=self.registry
        )
        self._seconds = Histogram(
            "dragoman_request_seconds",
            "Seconds until a response was complete.",
            ["route"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._characters = Counter(
            "dragoman_characters", "Characters of the requests that were admitted.", registry=self.registry
        )

        self._failures = Counter(
            "dragoman_upkeep_failures",
            "Failures of what a server does beside requests; they are logged.",
            ["work"],
            registry=self.registry,
        )

    def count_failure(self, work: str) -> None:
        """Count a failure of work beside requests, such as "saving usage"."""
        self._failures.labels(work).inc()

    def count_characters(self, characters: int) -> None:
        """Count the characters of an admitted request."""
        self._characters.inc(characters)

    def watch(self, name: str, description: str, value: Callable[[], float]) -> None:
        """Add a metric whose value is computed when the metrics are read."""
        Gauge(name, description, registry=self.registry).set_function(value)

    def text(self) -> bytes:
        """Return the metrics in Prometheus' text format."""
        return generate_latest(self.registry)

    def count_request(self, route: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)


class Measured:
    """Middleware that counts requests, logs them without what the client sent, and reports exceptions.

    Args:
        app: the application.
        metrics: the metrics.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; an exception of the application is logged without its message."""
        begin = time.perf_counter()
        # As in nginx: the client went away before the response.
        status = 499

        async def send_noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, send_noting)
        except Exception as error:
            # The message of an exception may contain text of the request. Starlette has sent the response, unless the
            # connection is to be closed.
            stack = "".join(traceback.format_tb(error.__traceback__))
            _LOG.error("internal error at %s: %s\n%s", _route(scope), type(error).__qualname__, stack)
        finally:
            seconds = time.perf_counter() - begin
            self._metrics.count_request(_route(scope), status, seconds)
            _LOG.info("%s %d %.3f s", _route(scope), status, seconds)


def _route(scope: Scope) -> str:
    """Return the path of the route, such as "/download_file/{name}"."""
    return getattr(scope.get("route"), "path", NO_ROUTE) or NO_ROUTE
