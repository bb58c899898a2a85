"""`translate_document`: the translation of a document in portions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from dragoman.serving.documents.formats import DocumentFormat
from dragoman.serving.request_error import RequestError
from dragoman.serving.texts.service import AUTO, TextOptions, TranslationService

_TEXTS_AT_ONCE = 8
# Characters at the beginning of a document by which its language is detected.
_DETECTION_CHARACTERS = 2000
_ATTEMPTS = 10


async def translate_document(
    service: TranslationService,
    document_format: DocumentFormat,
    content: bytes,
    texts: Sequence[str],
    options: TextOptions,
    *,
    on_progress: Callable[[float], None] | None = None,
) -> bytes:
    """Return a document with its texts translated; it waits while the server is full.

    Args:
        service: translates texts.
        document_format: the format of the document.
        content: the document.
        texts: its texts, as the format returns them.
        options: how they are translated; "auto" is detected once, so that all have the same source language.
        on_progress: called with the share of the texts that are translated, 0 to 1.

    Raises:
        RequestError: as `TranslationService.translate`.
    """
    if options.source == AUTO:
        beginning = "\n".join(texts)[:_DETECTION_CHARACTERS]
        options = replace(options, source=await service.source_of(beginning, options.target))
    translations: list[str] = []
    for start in range(0, len(texts), _TEXTS_AT_ONCE):
        translations += await _portion(service, texts[start : start + _TEXTS_AT_ONCE], options)
        if on_progress is not None:
            on_progress(len(translations) / len(texts))
    return await asyncio.to_thread(document_format.rebuilt, content, translations)


async def _portion(service: TranslationService, texts: Sequence[str], options: TextOptions) -> list[str]:
    for attempt in range(_ATTEMPTS):
        try:
            return [translated.text for translated in await service.translate(texts, options)]
        except RequestError as error:
            if error.status not in (429, 503) or attempt == _ATTEMPTS - 1:
                raise
            await asyncio.sleep(error.retry_after or 1.0)
    raise AssertionError
