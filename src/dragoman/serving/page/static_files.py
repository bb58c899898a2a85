"""The files of the page at / and of the description at /docs, held in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from importlib import resources
from pathlib import PurePosixPath

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from dragoman.attention_page.page import content_hashes
from dragoman.html_page import fill_template
from dragoman.serving.context import ServerContext

_OWN = "'self'"


def _headers(scripts: Sequence[str] = (), styles: Sequence[str] = ()) -> dict[str, str]:
    """Return headers by which nothing comes from elsewhere, and nothing is executed but the scripts of this server.

    Args:
        scripts: hashes of inline scripts that are permitted, too.
        styles: hashes of inline styles that are permitted, too.
    """
    return {
        "Content-Security-Policy": f"default-src 'none'; script-src {' '.join([_OWN, *scripts])}; "
        f"style-src {' '.join([_OWN, *styles])}; connect-src 'self'; img-src 'self' data:; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }


SECURITY_HEADERS = _headers()
# The page shows attention pages in a frame, whose policy is that of the page.
PAGE_HEADERS = _headers(*content_hashes())
_TYPES = {".css": "text/css", ".html": "text/html", ".js": "text/javascript", ".svg": "image/svg+xml"}
_STATIC = resources.files("dragoman.serving.page") / "static"


def routes(_context: ServerContext) -> list[BaseRoute]:
    """Return the routes of the page, its files, and /docs.

    Args:
        _context: not used, since the page gets what it needs from /v1; every interface has the same signature.
    """
    files = {entry.name: entry.read_bytes() for entry in sorted(_STATIC.iterdir(), key=lambda entry: entry.name)}
    # The address of the files changes with their contents, so that browsers may keep them for ever.
    digest = hashlib.sha256(b"".join(b"%s\0%d\0%s" % (k.encode(), len(v), v) for k, v in files.items())).hexdigest()
    digest = digest[:16]
    pages = {
        name: fill_template(files[name].decode(), {"files": f"page/{digest}"}).encode()
        for name in ("index.html", "docs.html")
    }

    def show(name: str) -> Route:
        async def endpoint(request: Request) -> Response:
            headers = PAGE_HEADERS if name == "index.html" else SECURITY_HEADERS
            return _answer(request, name, pages[name], {**headers, "Cache-Control": "no-cache"})

        return Route("/" if name == "index.html" else "/docs", endpoint, methods=["GET"])

    async def file(request: Request) -> Response:
        name = request.path_params["name"]
        if request.path_params["digest"] != digest or name not in files or name.endswith(".html"):
            return PlainTextResponse("there is no such file", 404, SECURITY_HEADERS)
        caching = {"Cache-Control": "public, max-age=31536000, immutable"}
        return _answer(request, name, files[name], SECURITY_HEADERS | caching)

    return [show("index.html"), show("docs.html"), Route("/page/{digest}/{name}", file, methods=["GET"])]


def _answer(request: Request, name: str, content: bytes, headers: dict[str, str]) -> Response:
    """Return a file, or status 304 if the client has it."""
    etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers = {**headers, "ETag": etag}
    held = {tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")}
    if etag in held:
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type=_TYPES[PurePosixPath(name).suffix])
