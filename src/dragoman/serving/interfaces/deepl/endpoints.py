"""The routes of DeepL's v2 interface, and its form of errors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from dragoman.errors import quoted
from dragoman.serving.context import ServerContext
from dragoman.serving.glossaries.store import GlossaryStore
from dragoman.serving.interfaces.deepl.documents import DocumentEndpoints
from dragoman.serving.interfaces.deepl.glossaries import Glossaries
from dragoman.serving.interfaces.deepl.texts import CharacterCounts, Texts
from dragoman.serving.request_error import RequestError

_Endpoint = Callable[[Request], Awaitable[Response]]


def routes(context: ServerContext) -> list[BaseRoute]:
    """Return the routes of the interface.

    Raises:
        StorageError: if the file of glossaries cannot be used.
    """
    store = GlossaryStore(context.data / "glossaries.sqlite")
    counts = CharacterCounts()
    texts = Texts(context, store, counts)
    glossaries = Glossaries(context, store)
    documents = DocumentEndpoints(context, store, counts)
    table: list[tuple[str, dict[str, _Endpoint]]] = [
        ("/v2/translate", {"POST": texts.translate}),
        ("/v2/languages", {"GET": texts.languages, "POST": texts.languages}),
        ("/v2/usage", {"GET": texts.usage, "POST": texts.usage}),
        ("/v2/glossary-language-pairs", {"GET": glossaries.language_pairs}),
        ("/v2/glossaries", {"GET": glossaries.list, "POST": glossaries.create}),
        ("/v2/glossaries/{glossary_id}", {"GET": glossaries.get, "DELETE": glossaries.delete}),
        ("/v2/glossaries/{glossary_id}/entries", {"GET": glossaries.entries}),
        ("/v2/document", {"POST": documents.upload}),
        ("/v2/document/{document_id}", {"POST": documents.status}),
        ("/v2/document/{document_id}/result", {"POST": documents.result}),
        ("/v2/{path:path}", {}),
        ("/v3/{path:path}", {}),
    ]
    return [Route(path, _Path(endpoints)) for path, endpoints in table]


class _Path:
    """ASGI application that answers the requests of one path, and reports errors as DeepL does.

    Args:
        endpoints: the endpoints by the method of the request. HEAD is answered where GET is.
    """

    def __init__(self, endpoints: Mapping[str, _Endpoint]) -> None:
        self._endpoints = dict(endpoints)
        if "GET" in endpoints:
            self._endpoints["HEAD"] = endpoints["GET"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        response = await self._response(Request(scope, receive, send))
        await response(scope, receive, send)

    async def _response(self, request: Request) -> Response:
        allowed = {"Allow": ", ".join(self._endpoints)}
        try:
            if not self._endpoints:
                raise RequestError(404, "this server does not have this part of the interface")
            if request.method == "OPTIONS":
                return Response(status_code=204, headers=allowed)
            if request.method not in self._endpoints:
                message = f"the method must be {' or '.join(self._endpoints)}, not {quoted(request.method)}"
                return JSONResponse({"message": message}, status_code=405, headers=allowed)
            return await self._endpoints[request.method](request)
        except RequestError as error:
            return JSONResponse({"message": error.message}, status_code=error.status, headers=error.headers)
