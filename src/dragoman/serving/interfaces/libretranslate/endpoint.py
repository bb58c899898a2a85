"""`Endpoint`: answers requests by a function, and reports errors as LibreTranslate does."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from dragoman.errors import quoted
from dragoman.serving.request_error import RequestError

_LOG = logging.getLogger(__name__)
# LibreTranslate answers 400 to what is too large or of an unknown type, and its clients expect that. 456 is a status of
# DeepL only.
_STATUSES = {413: 400, 415: 400, 456: 403}


class Endpoint:
    """ASGI application that answers the requests of one path; errors are {"error": message}.

    Args:
        answer: returns the response to a request, or raises a RequestError.
        method: the method of the requests, GET or POST. HEAD is answered where GET is.
    """

    def __init__(self, answer: Callable[[Request], Awaitable[Response]], method: str) -> None:
        self._answer = answer
        self._methods = ("GET", "HEAD") if method == "GET" else (method,)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        request = Request(scope, receive, send)
        response = await self._response(request)
        await response(scope, receive, send)

    async def _response(self, request: Request) -> Response:
        try:
            if request.method not in self._methods:
                allowed = ", ".join(self._methods)
                return _error(405, f"this address accepts {allowed} only", {"Allow": allowed})
            return await self._answer(request)
        except RequestError as error:
            message = f"Slowdown: {error.message}" if error.status == 429 else error.message
            return _error(_STATUSES.get(error.status, error.status), message, error.headers)
        except Exception as error:
            # The message of the exception may contain text of the request.
            stack = "".join(traceback.format_tb(error.__traceback__))
            _LOG.error("internal error at %s: %s\n%s", quoted(request.scope["path"]), type(error).__qualname__, stack)
            return _error(500, "internal error of the server")


def _error(status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse({"error": message}, status_code=status, headers=headers)
