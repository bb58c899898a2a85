"""LibreTranslate's interface, for programs that speak to a LibreTranslate server.

See https://github.com/LibreTranslate/LibreTranslate for its parameters and answers.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, cast

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from dragoman.errors import quoted
from dragoman.serving.context import ServerContext
from dragoman.serving.documents.formats import FORMATS, format_of
from dragoman.serving.documents.translation import translate_document
from dragoman.serving.interfaces.libretranslate.endpoint import Endpoint
from dragoman.serving.interfaces.libretranslate.suggestions import Suggestion, Suggestions
from dragoman.serving.interfaces.parameters import Parameters, read_parameters
from dragoman.serving.language_codes import matching_codes
from dragoman.serving.receipts import Receipt
from dragoman.serving.request_error import RequestError
from dragoman.serving.texts.languages import name_of
from dragoman.serving.texts.service import AUTO, Detection, Language, TextFormat, TextOptions

# Milliseconds for which a page waits after a key is pressed before it translates.
_FRONTEND_TIMEOUT = 500


def routes(context: ServerContext) -> list[BaseRoute]:
    """Return the routes of the interface."""
    interface = _Interface(context)
    return [
        Route("/translate", Endpoint(interface.translate, "POST")),
        Route("/detect", Endpoint(interface.detect, "POST")),
        Route("/suggest", Endpoint(interface.suggest, "POST")),
        Route("/translate_file", Endpoint(interface.translate_file, "POST")),
        Route("/download_file/{token:path}", Endpoint(interface.download_file, "GET")),
        Route("/languages", Endpoint(interface.languages, "GET")),
        Route("/frontend/settings", Endpoint(interface.frontend_settings, "GET")),
        Route("/health", Endpoint(interface.health, "GET")),
    ]


class _Interface:
    """The endpoints.

    Those with the method GET need no key: clients never send one with them.
    """

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self._service = context.service
        self._files = context.files
        self._suggestions = None if context.suggestions is None else Suggestions(context.suggestions)

    async def translate(self, request: Request) -> Response:
        """Translate a text or a list of texts."""
        parameters = await read_parameters(request)
        q = parameters.text_or_texts("q")
        texts = [q] if isinstance(q, str) else q
        with self._admit(request, parameters, *texts):
            if len(texts) > self._context.limits.texts:
                raise RequestError(400, f"q has {len(texts):,} texts: send at most {self._context.limits.texts:,}")
            options = self._options(parameters)
            translated = await self._service.translate(texts, options)
        answer: dict[str, list[Any]] = {"translatedText": [translation.text for translation in translated]}
        if options.source == AUTO:
            answer["detectedLanguage"] = [
                _detection(translation.detected or Detection(language=translation.source, confidence=0.0))
                for translation in translated
            ]
        if options.alternatives:
            answer["alternatives"] = [list(translation.alternatives) for translation in translated]
        # The members are lists of one item for each text; those of a single text are the items.
        return JSONResponse({name: items[0] for name, items in answer.items()} if isinstance(q, str) else answer)

    async def detect(self, request: Request) -> Response:
        """Return the languages in which a text may be written, most probable first."""
        parameters = await read_parameters(request)
        # A list counts as one text, as in LibreTranslate.
        q = parameters.text_or_texts("q")
        text = q if isinstance(q, str) else "\n".join(q)
        with self._admit(request, parameters, text):
            detections = await self._service.detect(text)
        return JSONResponse([_detection(detection) for detection in detections])

    async def suggest(self, request: Request) -> Response:
        """Store a suggested translation."""
        if self._suggestions is None:
            raise RequestError(403, "this server accepts no suggestions")
        parameters = await read_parameters(request)
        suggestion = Suggestion(
            q=parameters.text("q"),
            s=parameters.text("s"),
            source=parameters.text("source"),
            target=parameters.text("target"),
        )
        with self._admit(request, parameters, suggestion.q, suggestion.s):
            if not self._is_supported(suggestion.source, suggestion.target):
                raise RequestError(
                    400, f"{quoted(suggestion.source)} to {quoted(suggestion.target)} is not supported: see /languages"
                )
            await asyncio.to_thread(self._suggestions.add, suggestion)
        return JSONResponse({"success": True})

    async def translate_file(self, request: Request) -> Response:
        """Translate a file, and answer with the address of its translation."""
        parameters = await read_parameters(request)
        self._admit(request, parameters)
        upload = parameters.upload("file")
        document_format = format_of(upload.name)
        options = replace(self._options(parameters), format="text", alternatives=0)
        # A long document would keep the event loop from other requests.
        texts = await asyncio.to_thread(document_format.texts, upload.content)
        key = parameters.optional_text("api_key")
        with self._context.access.admit_document(request, key, sum(map(len, texts))):
            content = await translate_document(self._service, document_format, upload.content, texts, options)
            token = await asyncio.to_thread(self._files.put, content, upload.name)
        return JSONResponse({"translatedFileUrl": f"{str(request.base_url).rstrip('/')}/download_file/{token}"})

    async def download_file(self, request: Request) -> Response:
        """Send a translated file."""
        file = await asyncio.to_thread(self._files.get, request.path_params["token"])
        return Response(
            file.content,
            # Never text/html or another type that a browser runs as a part of this site.
            media_type="application/octet-stream",
            headers={
                "Content-Disposition": f'attachment; filename="{file.name}"',
                "X-Content-Type-Options": "nosniff",
                "Cache-Control": "no-store",
            },
        )

    async def languages(self, request: Request) -> Response:
        """Return the languages."""
        return JSONResponse(
            [
                {"code": language.code, "name": language.name, "targets": list(language.targets)}
                for language in self._languages()
            ]
        )

    async def frontend_settings(self, request: Request) -> Response:
        """Return what a page needs to be shown."""
        names = {language.code: language.name for language in self._languages()}
        target = self._service.languages()[0].targets[0]
        keys_required = self._context.access.keys_required
        return JSONResponse(
            {
                "charLimit": self._context.limits.characters,
                "frontendTimeout": _FRONTEND_TIMEOUT,
                "apiKeys": keys_required,
                "keyRequired": keys_required,
                "suggestions": self._suggestions is not None,
                "filesTranslation": True,
                "supportedFilesFormat": sorted(FORMATS),
                "language": {
                    "source": {"code": AUTO, "name": "Auto Detect"},
                    "target": {"code": target, "name": names[target]},
                },
            }
        )

    async def health(self, request: Request) -> Response:
        """Answer that the server runs; whether its models do is answered by /ready."""
        return JSONResponse({"status": "ok"})

    def _languages(self) -> list[Language]:
        """Return the languages, with those that are targets only: clients refuse a target that is not in this list."""
        sources = self._service.languages()
        targets = {target for language in sources for target in language.targets}
        only_targets = sorted(targets - {language.code for language in sources})
        return [*sources, *(Language(code=code, name=name_of(code), targets=()) for code in only_targets)]

    def _is_supported(self, source: str, target: str) -> bool:
        """Return whether the server translates between two languages, the first of which may be "auto"."""
        languages = self._service.languages()
        # Pages send "auto" if the user has not chosen a language.
        sources = [language.code for language in languages]
        if source != AUTO:
            sources = matching_codes(source, sources)
        return any(matching_codes(target, language.targets) for language in languages if language.code in sources)

    def _options(self, parameters: Parameters) -> TextOptions:
        text_format = parameters.choice("format", "text", "html")
        return TextOptions(
            source=parameters.text("source"),
            target=parameters.text("target"),
            format=cast(TextFormat, text_format),
            alternatives=parameters.integer(
                "alternatives", default=0, least=0, largest=self._context.limits.alternatives
            ),
        )

    def _admit(self, request: Request, parameters: Parameters, *texts: str) -> Receipt:
        return self._context.access.admit(request, parameters.optional_text("api_key"), sum(map(len, texts)))


def _detection(detection: Detection) -> dict[str, object]:
    # LibreTranslate counts confidence from 0 to 100.
    return {"confidence": round(100 * detection.confidence, 1), "language": detection.language}
