"""Middleware for browsers: security headers, and refusal of names of other sites."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dragoman.errors import quoted
from dragoman.serving.error_response import error_response
from dragoman.serving.request_error import RequestError

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "manifest-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class SecurityHeaders:
    """Middleware that adds the headers that a response does not have.

    Args:
        app: the application.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, send_with_headers)


class OneHost:
    """Middleware that refuses requests of HTTP/1.1 without a Host header, and requests with several.

    RFC 9112, section 3.2: a proxy and a server that chose different ones would disagree about the request.

    Args:
        app: the application.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or report 400."""
        hosts = Headers(scope=scope).getlist("host")
        if len(hosts) == 1 or (not hosts and scope["http_version"] == "1.0"):
            await self._app(scope, receive, send)
            return
        error = RequestError(400, f"the request has {len(hosts)} Host headers instead of one")
        await error_response(scope["path"], error)(scope, receive, send)


class KnownHosts:
    """Middleware that refuses requests for host names other than localhost and the given ones.

    A site could let its own name resolve to this machine and so read the responses in a visitor's browser (DNS
    rebinding). That needs a name, so addresses are accepted.

    Args:
        app: the application.
        names: further names that are accepted.
    """

    def __init__(self, app: ASGIApp, names: Collection[str]) -> None:
        self._app = app
        self._names = {"localhost", *(name.lower() for name in names)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or report 421."""
        # Only HTTP/1.0 permits a request without Host.
        host = Headers(scope=scope).get("host", "localhost")
        if _name(host) in self._names or _is_address(_name(host)):
            await self._app(scope, receive, send)
            return
        error = RequestError(421, f"the host {quoted(host)} is unknown: use localhost, or the option --public-host")
        await error_response(scope["path"], error)(scope, receive, send)


def _name(host: str) -> str:
    """Return the lower-case host of a Host header without the port, and without brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower().rstrip(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
