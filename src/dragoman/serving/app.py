"""The ASGI application of a server: the routes of its interfaces behind its limits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from dragoman.serving.access.admission import Admission
from dragoman.serving.access.body_limits import BodyLimits
from dragoman.serving.access.security import KnownHosts, OneHost, SecurityHeaders
from dragoman.serving.error_response import error_response
from dragoman.serving.limits import Limits
from dragoman.serving.metrics import Measured, Metrics
from dragoman.serving.request_error import RequestError

READY, LIVE, METRICS = "/ready", "/live", "/metrics"
# Seconds in which the check of /ready must end.
READY_SECONDS = 4.0
# Seconds for which its result holds for further requests.
READY_HOLDS_SECONDS = 0.5


class ServerApp:
    """The application of a server.

    Attributes:
        stopping: True if the server is about to end: /ready reports status 503.
    """

    def __init__(
        self,
        routes: Sequence[BaseRoute],
        *,
        limits: Limits,
        metrics: Metrics,
        ready: Callable[[], Awaitable[bool]],
        hosts: Sequence[str] | None,
        origins: Sequence[str],
    ) -> None:
        self.stopping = False
        self._ready = ready
        self._check: asyncio.Task[bool] | None = None
        self._check_holds_until = 0.0
        self._metrics = metrics
        own = [Route(READY, self._answer_ready), Route(LIVE, _answer_live), Route(METRICS, self._answer_metrics)]
        router = Starlette(
            routes=[*own, *routes],
            exception_handlers={
                HTTPException: _report_http_exception,
                RequestError: _report_request_error,
                Exception: _report_exception,
            },
        )
        # A redirection would be made from the Host header.
        router.router.redirect_slashes = False
        self._admission = Admission(router, limits, exempt=(READY, LIVE, METRICS))
        app: ASGIApp = BodyLimits(self._admission, limits)
        if origins:
            app = CORSMiddleware(
                app,
                allow_origins=list(origins),
                allow_methods=["GET", "POST", "DELETE"],
                allow_headers=["Authorization", "Content-Type"],
            )
        if hosts is not None:
            app = KnownHosts(app, hosts)
        self._app = SecurityHeaders(Measured(OneHost(app), metrics))
        metrics.watch("dragoman_requests_in_progress", "Requests in progress.", lambda: self._admission.in_progress)
        metrics.watch("dragoman_requests_queued", "Requests in the queue.", lambda: self._admission.queued)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        assert scope["type"] == "http"
        await self._app(scope, receive, send)

    def give_up(self) -> None:
        """Answer the requests in progress with status 503."""
        self._admission.give_up()

    async def _answer_ready(self, request: Request) -> Response:
        ready = not self.stopping and await self._checked() and not self.stopping
        return JSONResponse({"ready": ready}, status_code=200 if ready else 503)

    async def _checked(self) -> bool:
        """Return whether the models can translate; requests at the same time share a check."""
        check = self._check
        if check is None or (check.done() and asyncio.get_running_loop().time() >= self._check_holds_until):
            check = self._check = asyncio.create_task(self._check_models())
        return await asyncio.shield(check)

    async def _check_models(self) -> bool:
        try:
            async with asyncio.timeout(READY_SECONDS):
                return await self._ready()
        except TimeoutError:
            return False
        finally:
            self._check_holds_until = asyncio.get_running_loop().time() + READY_HOLDS_SECONDS

    async def _answer_metrics(self, request: Request) -> Response:
        return Response(self._metrics.text(), headers={"Content-Type": CONTENT_TYPE_LATEST})


def build_app(
    routes: Sequence[BaseRoute],
    *,
    limits: Limits,
    metrics: Metrics,
    ready: Callable[[], Awaitable[bool]],
    hosts: Sequence[str] | None = None,
    origins: Sequence[str] = (),
) -> ServerApp:
    """Return the application of a server, with /ready, /live and /metrics beside the routes of its interfaces.

    Args:
        routes: the routes of the interfaces, in order.
        limits: the limits.
        metrics: the metrics.
        ready: returns whether the models can translate.
        hosts: names of this server beside localhost; None to accept every name in the Host header.
        origins: origins of pages of other servers that may read the responses (CORS).
    """
    return ServerApp(routes, limits=limits, metrics=metrics, ready=ready, hosts=hosts, origins=origins)


async def _answer_live(_request: Request) -> Response:
    return JSONResponse({"live": True})


async def _report_request_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestError)
    return error_response(request.scope["path"], error)


async def _report_http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    response = error_response(request.scope["path"], RequestError(max(400, error.status_code), error.detail))
    response.headers.update(error.headers or {})
    return response


async def _report_exception(request: Request, _error: Exception) -> Response:
    return error_response(request.scope["path"], RequestError(500, "internal error of the server"))
