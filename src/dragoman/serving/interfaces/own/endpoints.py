"""Dragoman's own interface below /v1: translations with scores, alternatives and links, at once or streamed.

A key is sent as "Authorization: Bearer KEY". Errors are {"error": {"message": text}}.
"""

from __future__ import annotations

import codecs
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import TypeVar

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from dragoman.serving.context import Access, ServerContext
from dragoman.serving.interfaces.own.openapi import describe
from dragoman.serving.interfaces.own.schemas import (
    DetectAnswer,
    DetectRequest,
    ErrorAnswer,
    Failure,
    LanguagesAnswer,
    RequestLimits,
    Schema,
    ServedLanguage,
    StreamRequest,
    TranslateAnswer,
    TranslateRequest,
    TranslationOptions,
    detected_language,
    sentence_answer,
    text_answer,
)
from dragoman.serving.interfaces.parameters import JSON, content_type
from dragoman.serving.receipts import Receipt
from dragoman.serving.request_error import RequestError
from dragoman.serving.texts.service import TextOptions, TranslatedSentence, TranslatedText

Endpoint = Callable[[Request], Awaitable[Response]]
Body = TypeVar("Body", bound=Schema)


def routes(context: ServerContext) -> list[BaseRoute]:
    """Return the routes below /v1, and /openapi.json."""
    interface = _Interface(context)
    return [
        Route("/v1/translate", reporting_errors(interface.translate), methods=["POST"]),
        Route("/v1/translate/stream", reporting_errors(interface.stream), methods=["POST"]),
        Route("/v1/detect", reporting_errors(interface.detect), methods=["POST"]),
        Route("/v1/languages", reporting_errors(interface.languages), methods=["GET"]),
        Route("/openapi.json", interface.openapi, methods=["GET"]),
    ]


def reporting_errors(endpoint: Endpoint) -> Endpoint:
    """Return an endpoint that answers a `RequestError` with its status and {"error": {"message": text}}."""

    async def wrapped(request: Request) -> Response:
        try:
            return await endpoint(request)
        except RequestError as error:
            return _json(ErrorAnswer(error=Failure(message=error.message)), error.status, error.headers)

    return wrapped


class _Interface:
    """The endpoints.

    Args:
        context: what the interfaces of the server share.
    """

    def __init__(self, context: ServerContext) -> None:
        self._context = context

    async def translate(self, request: Request) -> Response:
        """Answer POST /v1/translate."""
        body = await read_body(request, TranslateRequest)
        most = self._context.limits.texts
        with admit(self._context.access, request, sum(map(len, body.texts)) + len(body.prefix)):
            if len(body.texts) > most:
                raise RequestError(400, f"texts: there are {len(body.texts)} texts; a request may have {most}")
            if body.prefix and len(body.texts) > 1:
                raise RequestError(400, "prefix: give one text, with whose translation it begins")
            options = replace(self._options(body), prefix=body.prefix)
            texts = await self._context.service.translate(body.texts, options)
        return _json(TranslateAnswer(translations=[text_answer(text) for text in texts]))

    async def stream(self, request: Request) -> Response:
        """Answer POST /v1/translate/stream with server-sent events: `sentence` for each sentence, then `text`."""
        body = await read_body(request, StreamRequest)
        receipt = admit(self._context.access, request, len(body.text))
        try:
            events = _events(self._context.service.stream(body.text, self._options(body)), receipt)
            # The first event is awaited here, so that a language that is not supported has a status of its own.
            try:
                first = await anext(events)
            except BaseException:
                await events.aclose()
                raise
        except BaseException:
            receipt.release()
            raise
        return _EventResponse(first, events)

    async def detect(self, request: Request) -> Response:
        """Answer POST /v1/detect."""
        body = await read_body(request, DetectRequest)
        with admit(self._context.access, request, len(body.text)):
            detections = await self._context.service.detect(body.text)
        return _json(DetectAnswer(detections=[detected_language(detection) for detection in detections]))

    async def languages(self, request: Request) -> Response:
        """Answer GET /v1/languages."""
        admit(self._context.access, request, 0)
        limits = self._context.limits
        return _json(
            LanguagesAnswer(
                languages=[
                    ServedLanguage(code=language.code, name=language.name, targets=list(language.targets))
                    for language in self._context.service.languages()
                ],
                limits=RequestLimits(
                    characters=limits.characters, texts=limits.texts, alternatives=limits.alternatives
                ),
            )
        )

    async def openapi(self, request: Request) -> Response:
        """Answer GET /openapi.json."""
        limits = self._context.limits
        return JSONResponse(describe(limits, keys_required=self._context.access.keys_required))

    def _options(self, body: TranslationOptions) -> TextOptions:
        most = self._context.limits.alternatives
        if body.alternatives > most:
            raise RequestError(400, f"alternatives: {body.alternatives} is more than {most}, the limit of this server")
        return TextOptions(
            source=body.source,
            target=body.target,
            format=body.format,
            alternatives=body.alternatives,
            split_sentences=body.split_sentences,
            alignment=body.alignment,
            words=body.words,
        )


class _EventResponse(StreamingResponse):
    """Server-sent events; the work behind them ends with the response, even if the client goes away.

    Args:
        first: the first event.
        rest: the other events.
    """

    def __init__(self, first: str, rest: AsyncGenerator[str, None]) -> None:
        self._rest = rest
        # no-transform, X-Accel-Buffering: a proxy that collects the answer would defeat the purpose.
        headers = {"Cache-Control": "no-store, no-transform", "X-Accel-Buffering": "no"}
        super().__init__(_chain(first, rest), headers=headers, media_type="text/event-stream")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        async with aclosing(self._rest):
            await super().__call__(scope, receive, send)


async def _chain(first: str, rest: AsyncIterator[str]) -> AsyncIterator[str]:
    yield first
    async for event in rest:
        yield event


async def _events(
    stream: AsyncGenerator[TranslatedSentence | TranslatedText, None], receipt: Receipt
) -> AsyncGenerator[str, None]:
    """Yield server-sent events; an error after the first one is an event too, as the status is sent by then.

    The characters are released if there is an error, and charged if the client goes away after the first event.
    """
    async with aclosing(stream):
        started = False
        try:
            async for item in stream:
                started = True
                if isinstance(item, TranslatedSentence):
                    yield _event("sentence", sentence_answer(item))
                else:
                    yield _event("text", text_answer(item))
        except RequestError as error:
            receipt.release()
            if not started:
                raise
            yield _event("error", ErrorAnswer(error=Failure(message=error.message)))
        except Exception:
            receipt.release()
            raise
        finally:
            if started:
                receipt.charge()
            else:
                receipt.release()


def _event(name: str, answer: Schema) -> str:
    # JSON has no line feeds outside of its white space, of which there is none here.
    return f"event: {name}\ndata: {answer.model_dump_json(exclude_none=True)}\n\n"


def admit(access: Access, request: Request, characters: int) -> Receipt:
    """Count a request for its key or address.

    Raises:
        RequestError: as `Access.admit`.
    """
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    return access.admit(request, key.strip() if scheme.lower() == "bearer" else None, characters)


async def read_body(request: Request, schema: type[Body]) -> Body:
    """Return the body of a request.

    Raises:
        RequestError: if it is not JSON (status 415), or not what the schema describes (status 400).
    """
    if content_type(request)[0] != JSON:
        raise RequestError(415, "send the body as JSON, with the header Content-Type: application/json")
    try:
        return schema.model_validate_json((await request.body()).removeprefix(codecs.BOM_UTF8))
    except ValidationError as invalid:
        # Without the input, which is text of the user.
        problem = invalid.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(map(str, problem["loc"]))
        raise RequestError(400, f"{place}: {problem['msg']}" if place else problem["msg"]) from None


def _json(answer: Schema, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    body = answer.model_dump_json(exclude_none=True)
    return Response(body, status, headers, media_type="application/json")
