"""`TranslationService`: what every interface of the server calls to translate texts."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from dragoman.serving.lines import LineTranslator, Pair
from dragoman.serving.request_error import RequestError
from dragoman.serving.texts.detection import LanguageDetector
from dragoman.serving.texts.languages import LanguagePairs, name_of
from dragoman.serving.texts.text_formats import visible_text
from dragoman.serving.texts.text_request import TextRequest, translate_texts
from dragoman.serving.texts.translated import (
    AUTO,
    Detection,
    Language,
    TextFormat,
    TextOptions,
    TranslatedSentence,
    TranslatedText,
)
from dragoman.text.characters import replace_surrogates

__all__ = [
    "AUTO",
    "Detection",
    "Language",
    "TextFormat",
    "TextOptions",
    "TranslatedSentence",
    "TranslatedText",
    "TranslationService",
]


class TranslationService:
    """Translates texts with the models of a server.

    The text between the sentences comes back as it was; lone surrogates, which UTF-8 cannot represent, become U+FFFD.

    Args:
        lines: translates lines.
    """

    def __init__(self, lines: LineTranslator) -> None:
        self._lines = lines
        self._detector = LanguageDetector()
        self._groups = itertools.count()

    async def source_of(self, text: str, target: str) -> str:
        """Return the most probable language of a text, of those that can be translated into the target or are it.

        The target must be clear, see `LanguageDetector.best_of`.

        Raises:
            RequestError: with status 400 for a target that the server does not have.
        """
        options = TextOptions(source=AUTO, target=target)
        pairs = LanguagePairs(self._lines.pairs)
        [detection] = await asyncio.to_thread(self._detected_sources, [text], options, pairs)
        return detection.language

    def direct_pair(self, source: str, target: str) -> Pair:
        """Return the pair of a model that translates from one language into another by itself.

        Raises:
            RequestError: with status 400 if the server does not have a language, or no such model.
        """
        route = LanguagePairs(self._lines.pairs).route(source, target)
        if len(route) != 1:
            raise RequestError(400, f"there is no model that translates from {source} to {target} directly")
        return route[0]

    async def load(self) -> None:
        """Load the model that detects languages (about 2 s, in a thread). Called when the server starts."""
        await self._detector.load()

    def languages(self) -> list[Language]:
        """Return the languages that can be a source."""
        pairs = LanguagePairs(self._lines.pairs)
        return [Language(code=code, name=name_of(code), targets=pairs.targets(code)) for code in pairs.sources]

    async def detect(self, text: str) -> list[Detection]:
        """Return the languages in which a text may be written, most probable first; at least one.

        These may be languages that the server cannot translate. If the language cannot be detected (fewer than about
        three letters), the result is English with confidence 0. The first call takes 2 s, unless `load` was called;
        another one milliseconds.
        """
        return await asyncio.to_thread(self._detector.candidates, text)

    async def translate(self, texts: Sequence[str], options: TextOptions) -> list[TranslatedText]:
        """Return the translation of each text, in order.

        If the source is "auto", each text has the most probable language of those that the server can translate into
        the target, or the target itself if that is clear, see `LanguageDetector.best_of_each`. A text whose source is
        the target comes back unchanged. If the caller is cancelled, all of its sentences are given up.

        Raises:
            RequestError: with status 400 for a language, or a pair of languages, that the server does not have, or XML
                that is not well-formed; and as `LineTranslator.translate_line`.
        """
        requests = await self._requests(texts, options)
        return await translate_texts(requests)

    async def stream(
        self, text: str, options: TextOptions
    ) -> AsyncGenerator[TranslatedSentence | TranslatedText, None]:
        """Yield each sentence of a text when it and those before it are translated, then what `translate` returns.

        In a text without markup, the sentences, each after its `before`, and `after` of the last item, are the text of
        the last item. When the iterator is closed, the sentences that are not translated are given up.

        Raises:
            RequestError: as `translate`; that of a sentence after the sentences before it.
        """
        [request] = await self._requests([text], options)
        async with aclosing(request.stream()) as items:
            async for item in items:
                yield item

    async def _requests(self, texts: Sequence[str], options: TextOptions) -> list[TextRequest]:
        pairs = LanguagePairs(self._lines.pairs)
        texts = [replace_surrogates(text) for text in texts]
        sources: list[tuple[str, Detection | None]]
        if options.source == AUTO:
            # Detection takes milliseconds per text, and loading its model seconds.
            detections = await asyncio.to_thread(self._detected_sources, texts, options, pairs)
            sources = [(detection.language, detection) for detection in detections]
        else:
            sources = [(options.source, None) for _ in texts]
        group = next(self._groups)
        return [
            TextRequest(
                lines=self._lines,
                text=text,
                options=options,
                source=source,
                detected=detected,
                route=pairs.route(source, options.target),
                group=group,
            )
            for text, (source, detected) in zip(texts, sources, strict=True)
        ]

    def _detected_sources(self, texts: Sequence[str], options: TextOptions, pairs: LanguagePairs) -> list[Detection]:
        # Raises RequestError for a target that the server does not have.
        pairs.route(options.target, options.target)
        targets = pairs.matching(options.target)
        codes = [code for code in pairs.codes if code == targets[0] or set(targets) & set(pairs.targets(code))]
        return self._detector.best_of_each(codes, [visible_text(text, options) for text in texts], target=targets[0])
