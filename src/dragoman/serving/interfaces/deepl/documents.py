"""/v2/document: upload, status and result."""

from __future__ import annotations

import asyncio
from pathlib import PurePosixPath
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from dragoman.serving.context import ServerContext
from dragoman.serving.document_formats import format_of
from dragoman.serving.documents import Document, Documents
from dragoman.serving.glossaries import GlossaryStore
from dragoman.serving.interfaces.deepl.glossaries import check_glossary
from dragoman.serving.interfaces.deepl.parameters import Parameters, read_parameters
from dragoman.serving.interfaces.deepl.texts import CharacterCounts, text_options
from dragoman.serving.request_error import RequestError


class DocumentEndpoints:
    """Endpoints for documents.

    Args:
        context: what the interfaces share.
        documents: the documents.
        store: the glossaries.
        counts: the characters of each owner.
    """

    def __init__(
        self, context: ServerContext, documents: Documents, store: GlossaryStore, counts: CharacterCounts
    ) -> None:
        self._context = context
        self._documents = documents
        self._store = store
        self._counts = counts

    async def upload(self, request: Request) -> Response:
        """Store a document and begin its translation."""
        context = self._context
        limits = context.limits
        parameters = await read_parameters(request, limits.document_bytes + limits.body_bytes)
        context.access.admit(request, parameters.key, 0)
        if parameters.file is None:
            raise RequestError(400, "the file is missing: send a form (multipart/form-data) with the field file")
        if len(parameters.file.content) > limits.document_bytes:
            raise RequestError(413, f"the document has more than {limits.document_bytes:,} bytes")
        name = parameters.optional("filename") or parameters.file.name
        document_format = format_of(name)
        suffix = PurePosixPath(name).suffix[1:].lower()
        parameters.choice("output_format", suffix)
        options = text_options(context, parameters)
        await check_glossary(context, self._store, parameters)
        # A long document would keep the event loop from other requests.
        texts = await asyncio.to_thread(document_format.texts, parameters.file.content)
        self._admit_characters(request, parameters, sum(map(len, texts)))
        document = self._documents.add(
            owner=parameters.owner,
            name=name,
            content=parameters.file.content,
            document_format=document_format,
            texts=texts,
            options=options,
        )
        self._counts.add(parameters.owner, document.characters)
        return JSONResponse({"document_id": document.identifier, "document_key": document.key})

    async def status(self, request: Request) -> Response:
        """Report how far a document is translated."""
        document = self._documents.get(*await self._requested(request))
        answer: dict[str, object] = {"document_id": document.identifier, "status": document.state}
        if document.state == "done":
            answer["billed_characters"] = document.characters
        elif document.state == "error":
            answer["error_message"] = document.error
        else:
            answer["seconds_remaining"] = document.seconds_remaining()
        return JSONResponse(answer)

    async def result(self, request: Request) -> Response:
        """Return a translated document, once."""
        document = self._documents.take(*await self._requested(request))
        return Response(document.content, headers=_headers(document))

    async def _requested(self, request: Request) -> tuple[str, str, str]:
        parameters = await read_parameters(request, self._context.limits.body_bytes)
        self._context.access.admit(request, parameters.key, 0)
        return parameters.owner, request.path_params["document_id"], parameters.required("document_key")

    def _admit_characters(self, request: Request, parameters: Parameters, characters: int) -> None:
        """Count the characters of a document, which may have more of them than the texts of a request."""
        limits = self._context.limits
        if characters > limits.characters_per_minute:
            raise RequestError(413, f"the document has more than {limits.characters_per_minute:,} characters")
        while characters > 0:
            portion = min(characters, limits.characters)
            self._context.access.admit(request, parameters.key, portion)
            characters -= portion


def _headers(document: Document) -> dict[str, str]:
    name = quote(PurePosixPath(document.name).name, safe="")
    return {"Content-Type": document.format.media_type, "Content-Disposition": f"attachment; filename*=UTF-8''{name}"}
