"""/v2/document: upload, status and result."""

from __future__ import annotations

import asyncio
from pathlib import PurePosixPath
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from dragoman.serving.context import ServerContext
from dragoman.serving.documents.documents import Document
from dragoman.serving.documents.formats import format_of
from dragoman.serving.glossaries.store import GlossaryStore
from dragoman.serving.interfaces.deepl.calls import read_call
from dragoman.serving.interfaces.deepl.glossaries import check_glossary
from dragoman.serving.interfaces.deepl.texts import CharacterCounts, text_options
from dragoman.serving.request_error import RequestError


class DocumentEndpoints:
    """Endpoints for documents.

    Args:
        context: what the interfaces share.
        store: the glossaries.
        counts: the characters of each owner.
    """

    def __init__(self, context: ServerContext, store: GlossaryStore, counts: CharacterCounts) -> None:
        self._context = context
        self._documents = context.documents
        self._store = store
        self._counts = counts

    async def upload(self, request: Request) -> Response:
        """Store a document and begin its translation."""
        context = self._context
        call = await read_call(request)
        context.access.admit(request, call.key, 0)
        parameters = call.parameters
        upload = parameters.upload("file")
        name = parameters.optional_text("filename") or upload.name
        document_format = format_of(name)
        suffix = PurePosixPath(name).suffix[1:].lower()
        parameters.choice("output_format", suffix)
        options = text_options(context, parameters)
        await check_glossary(context, self._store, call)
        # A long document would keep the event loop from other requests.
        texts = await asyncio.to_thread(document_format.texts, upload.content)
        receipt = context.access.admit_document(request, call.key, sum(map(len, texts)))
        try:
            document = self._documents.add(
                owner=call.owner,
                name=name,
                content=upload.content,
                document_format=document_format,
                texts=texts,
                options=options,
                receipt=receipt,
            )
        except RequestError:
            receipt.release()
            raise
        self._counts.add(call.owner, document.characters)
        return JSONResponse({"document_id": document.identifier, "document_key": document.key})

    async def status(self, request: Request) -> Response:
        """Report how far a document is translated."""
        document = await self._requested(request)
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
        document = await self._requested(request)
        return Response(await self._documents.take(document), headers=_headers(document))

    async def _requested(self, request: Request) -> Document:
        call = await read_call(request)
        self._context.access.admit(request, call.key, 0)
        return self._documents.get(call.owner, request.path_params["document_id"], call.parameters.text("document_key"))


def _headers(document: Document) -> dict[str, str]:
    name = quote(PurePosixPath(document.name).name, safe="")
    return {"Content-Type": document.format.media_type, "Content-Disposition": f"attachment; filename*=UTF-8''{name}"}
