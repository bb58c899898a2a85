"""/v2/glossaries and /v2/glossary-language-pairs. Glossaries are stored; translations do not use them yet."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from dragoman.serving.context import ServerContext
from dragoman.serving.glossaries.entries import CONTROL_CHARACTER, parse_entries, to_tsv
from dragoman.serving.glossaries.store import Glossary, GlossaryStore
from dragoman.serving.interfaces.deepl.calls import Call, read_call
from dragoman.serving.interfaces.deepl.languages import base_pair, find_pair, pairs
from dragoman.serving.request_error import RequestError

_MAX_NAME = 1024
_TSV = "text/tab-separated-values"


class Glossaries:
    """Endpoints for glossaries.

    Args:
        context: what the interfaces share.
        store: the glossaries.
    """

    def __init__(self, context: ServerContext, store: GlossaryStore) -> None:
        self._context = context
        self._store = store

    async def language_pairs(self, request: Request) -> Response:
        """List the pairs of languages for which glossaries can be stored: all that the server translates."""
        await self._admitted(request)
        supported = [
            {"source_lang": source, "target_lang": target}
            for source, target in sorted({base_pair(pair) for pair in pairs(self._context.service)})
        ]
        return JSONResponse({"supported_languages": supported})

    async def create(self, request: Request) -> Response:
        """Store a glossary."""
        call = await self._admitted(request)
        parameters = call.parameters
        name = parameters.text("name").strip()
        if not name or CONTROL_CHARACTER.search(name) or len(name) > _MAX_NAME:
            raise RequestError(400, f"name must have 1 to {_MAX_NAME:,} characters, none of them a control character")
        pair = find_pair(self._context.service, parameters.text("source_lang"), parameters.text("target_lang"))
        entries_format = parameters.text("entries_format")
        entries = await asyncio.to_thread(parse_entries, parameters.text("entries"), entries_format)
        glossary = await asyncio.to_thread(self._store.create, call.owner, name, pair, entries)
        return JSONResponse(_described(glossary), status_code=201)

    async def list(self, request: Request) -> Response:
        """List the glossaries of the key."""
        call = await self._admitted(request)
        glossaries = await asyncio.to_thread(self._store.list, call.owner)
        return JSONResponse({"glossaries": [_described(glossary) for glossary in glossaries]})

    async def get(self, request: Request) -> Response:
        """Describe a glossary."""
        call = await self._admitted(request)
        return JSONResponse(_described(await asyncio.to_thread(self._store.get, call.owner, _identifier(request))))

    async def entries(self, request: Request) -> Response:
        """Return the entries of a glossary as tab-separated values."""
        call = await self._admitted(request)
        accepted = {part.split(";")[0].strip().lower() for part in request.headers.get("Accept", "*/*").split(",")}
        if not accepted & {_TSV, "text/*", "*/*", ""}:
            raise RequestError(400, f"entries are available as {_TSV} only: change the header Accept")
        entries = await asyncio.to_thread(self._store.entries, call.owner, _identifier(request))
        return Response(to_tsv(entries), media_type=_TSV)

    async def delete(self, request: Request) -> Response:
        """Delete a glossary."""
        call = await self._admitted(request)
        await asyncio.to_thread(self._store.delete, call.owner, _identifier(request))
        return Response(status_code=204)

    async def _admitted(self, request: Request) -> Call:
        call = await read_call(request)
        self._context.access.admit(request, call.key, 0)
        return call


async def check_glossary(context: ServerContext, store: GlossaryStore, call: Call) -> None:
    """Check the parameter glossary_id, if it is given.

    Raises:
        RequestError: with status 404 if the key has no such glossary; 400 without source_lang, or if the glossary is
            for other languages.
    """
    parameters = call.parameters
    identifier = parameters.optional_text("glossary_id")
    if identifier is None:
        return
    pair = base_pair(find_pair(context.service, parameters.text("source_lang"), parameters.text("target_lang")))
    glossary = await asyncio.to_thread(store.get, call.owner, identifier)
    # Clients send the languages of a glossary without regions, and those of a text with them.
    if base_pair(glossary.pair) != pair:
        raise RequestError(
            400,
            f"the glossary is for {' to '.join(base_pair(glossary.pair))}, but the request is for {' to '.join(pair)}",
        )


def _identifier(request: Request) -> str:
    identifier: str = request.path_params["glossary_id"]
    return identifier


def _described(glossary: Glossary) -> dict[str, object]:
    """Return a glossary as DeepL describes it; here the codes of languages are in lower case, without variants."""
    source, target = base_pair(glossary.pair)
    return {
        "glossary_id": glossary.identifier,
        "name": glossary.name,
        "ready": True,
        "source_lang": source,
        "target_lang": target,
        "creation_time": glossary.created.isoformat(timespec="microseconds"),
        "entry_count": glossary.size,
    }
