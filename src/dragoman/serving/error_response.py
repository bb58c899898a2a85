"""Responses to requests that no interface has answered, in the form of the interface of the path."""

from __future__ import annotations

from starlette.responses import JSONResponse

from dragoman.serving.request_error import RequestError


def error_response(path: str, error: RequestError) -> JSONResponse:
    """Return the response that reports an error.

    The form is {"message": text} for /v2 and /v3 (DeepL), {"error": {"message": text}} for /v1, and {"error": text} for
    other paths (LibreTranslate).
    """
    content: dict[str, object]
    first = path.split("/")[1] if path.startswith("/") else ""
    if first in ("v2", "v3"):
        content = {"message": error.message}
    elif first == "v1":
        content = {"error": {"message": error.message}}
    else:
        content = {"error": error.message}
    return JSONResponse(content, status_code=error.status, headers=error.headers)
