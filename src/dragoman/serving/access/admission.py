"""`Admission`: middleware that limits how many requests are answered at the same time, and for how long."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dragoman.serving.error_response import error_response
from dragoman.serving.limits import Limits
from dragoman.serving.request_error import RequestError

RETRY_SECONDS = 1.0


class Admission:
    """Middleware that answers a number of requests at the same time; others wait in a queue of limited length.

    A request that takes too long, or whose client went away, is cancelled, while its response is sent too.

    Args:
        app: the application.
        limits: the limits.
        exempt: paths that are always answered at once.

    Attributes:
        in_progress: number of requests that are being answered.
        queued: number of requests that wait.
    """

    def __init__(self, app: ASGIApp, limits: Limits, exempt: Collection[str]) -> None:
        self._app = app
        self._limits = limits
        self._exempt = frozenset(exempt)
        self._places = asyncio.Semaphore(limits.requests)
        self._work: set[asyncio.Task[None]] = set()
        self.in_progress = self.queued = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; the status is 503 if the queue is full, or the request takes too long."""
        if scope["path"] in self._exempt:
            await self._app(scope, receive, send)
            return
        started = False

        async def send_noting(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._answer(scope, receive, send_noting)
        except RequestError as error:
            # A response that has been sent in part cannot be taken back: the server closes the connection.
            if not started:
                await error_response(scope["path"], error)(scope, receive, send)

    def give_up(self) -> None:
        """Cancel the requests in progress; they are answered with status 503."""
        for work in self._work:
            work.cancel()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await receive()
        gone = asyncio.ensure_future(_disconnection(receive))

        async def receive_again() -> Message:
            nonlocal body
            first, body = body, {}
            return first or await asyncio.shield(gone)

        work = asyncio.ensure_future(self._in_place(scope, receive_again, send))
        self._work.add(work)
        try:
            await asyncio.wait((work, gone), timeout=self._limits.request_seconds, return_when=asyncio.FIRST_COMPLETED)
            if work.cancelled():
                raise RequestError(503, "the server is stopping", retry_after=RETRY_SECONDS)
            if work.done():
                work.result()
            elif not gone.done():
                seconds = self._limits.request_seconds
                raise RequestError(503, f"the request took longer than {seconds:g} s", retry_after=RETRY_SECONDS)
        finally:
            self._work.discard(work)
            work.cancel()
            gone.cancel()
            # The places of cancelled work are free when this function returns.
            await asyncio.gather(work, gone, return_exceptions=True)

    async def _in_place(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._places.locked() and self.queued >= self._limits.queue:
            raise RequestError(503, "the server is busy: try again later", retry_after=RETRY_SECONDS)
        self.queued += 1
        try:
            await self._places.acquire()
        finally:
            self.queued -= 1
        self.in_progress += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self.in_progress -= 1
            self._places.release()


async def _disconnection(receive: Receive) -> Message:
    """Wait until the client has gone away, or the response is complete."""
    message = await receive()
    while message["type"] != "http.disconnect":
        message = await receive()
    return message
