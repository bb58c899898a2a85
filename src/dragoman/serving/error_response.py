"""Responses to requests that no interface has answered, in the form of the interface of the path."""

from __future__ import annotations

from starlette.responses import JSONResponse

from dragoman.serving.request_error import RequestError


def error_response(path: str, error: RequestError) -> JSONResponse:
    """Return the response that reports an error.

    The form is {"message": text} below /v2/ (DeepL), {"error": {"message": text}} below /v1/, and {"error": text}
    elsewhere (LibreTranslate).
    """
    content: dict[str, object]
    if path.startswith("/v2/"):
        content = {"message": error.message}
    elif path.startswith("/v1/"):
        content = {"error": {"message": error.message}}
    else:
        content = {"error": error.message}
    return JSONResponse(content, status_code=error.status, headers=error.headers)
