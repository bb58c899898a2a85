"""`BodyLimits`: middleware that receives the body of a request within limits of size and time."""

from __future__ import annotations

import asyncio

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dragoman.serving.error_response import error_response
from dragoman.serving.limits import Limits
from dragoman.serving.request_error import RequestError

# Paths to which documents are uploaded; `Limits.document_bytes` applies to them.
DOCUMENT_PATHS = ("/translate_file", "/v2/document")
# Seconds for which the rest of a body is discarded after it was refused: a connection that is closed while data
# arrives loses the response.
DISCARD_SECONDS = 1.0


class BodyLimits:
    """Middleware that receives the whole body before the application is called.

    A request therefore occupies none of the server's places while it arrives. The bodies that are held at the same
    time have a limit too: those of all requests that the server accepts, and four documents.

    Args:
        app: the application.
        limits: the limits.
    """

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self._app = app
        self._limits = limits
        self._held_bytes = 0
        self._max_held_bytes = (limits.requests + limits.queue) * limits.body_bytes + 4 * limits.document_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the application with the body, or report 408 (too slow), 413 (too large) or 503 (too many bodies)."""
        body = bytearray()
        try:
            try:
                complete = await self._read(scope, receive, body)
            except RequestError as error:
                await _refuse(error, scope, receive, send)
                return
            if complete:
                await self._app(scope, _replayed(bytes(body), receive), send)
        finally:
            self._held_bytes -= len(body)

    async def _read(self, scope: Scope, receive: Receive, body: bytearray) -> bool:
        """Append the body to `body`; return False if the client went away."""
        limits = self._limits
        largest = limits.document_bytes if scope["path"] in DOCUMENT_PATHS else limits.body_bytes
        length = Headers(scope=scope).get("content-length", "0")
        # The parser has checked that it is a number.
        if len(length) > 18 or int(length) > largest:
            raise _too_large(largest)
        try:
            async with asyncio.timeout(limits.body_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return False
                    part = message.get("body", b"")
                    if len(body) + len(part) > largest:
                        raise _too_large(largest)
                    if self._held_bytes + len(part) > self._max_held_bytes:
                        raise RequestError(503, "the server holds too many requests: try again later", retry_after=1)
                    body += part
                    self._held_bytes += len(part)
                    if not message.get("more_body", False):
                        return True
        except TimeoutError:
            raise RequestError(408, f"the request did not arrive within {limits.body_seconds:g} s") from None


def _too_large(largest: int) -> RequestError:
    return RequestError(413, f"the body of the request has more than {largest:,} bytes")


def _replayed(body: bytes, receive: Receive) -> Receive:
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return messages.pop() if messages else await receive()

    return receive_again


async def _refuse(error: RequestError, scope: Scope, receive: Receive, send: Send) -> None:
    response = error_response(scope["path"], error)
    response.headers["Connection"] = "close"

    async def send_but_stay(message: Message) -> None:
        await send({**message, "more_body": True} if message["type"] == "http.response.body" else message)

    await response(scope, receive, send_but_stay)
    try:
        async with asyncio.timeout(DISCARD_SECONDS):
            message = await receive()
            while message["type"] != "http.disconnect" and message.get("more_body", False):
                message = await receive()
    except TimeoutError:
        pass
    await send({"type": "http.response.body", "body": b"", "more_body": False})
