"""`TranslationService`: what every interface of the server calls to translate texts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from dragoman.serving.alternatives import best_combinations
from dragoman.serving.detection import LanguageDetector
from dragoman.serving.guard import translate_guarded
from dragoman.serving.html_text import split_html, visible_text
from dragoman.serving.languages import LanguagePairs, name_of
from dragoman.serving.lines import LineOptions, LineTranslator, Pair
from dragoman.serving.pieces import Piece, SplitText, split_plain_text
from dragoman.serving.translated import (
    AUTO,
    Detection,
    Guarded,
    Language,
    TextFormat,
    TextOptions,
    TranslatedSentence,
    TranslatedText,
)
from dragoman.text.characters import replace_surrogates
from dragoman.translation.results import Translation

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

BEAM = 5


class TranslationService:
    """Translates texts with the models of a server.

    The text between the sentences comes back as it was; lone surrogates, which UTF-8 cannot represent, become U+FFFD.

    Args:
        lines: translates lines.
    """

    def __init__(self, lines: LineTranslator) -> None:
        self._lines = lines
        self._detector = LanguageDetector()

    def source_of(self, text: str, target: str) -> str:
        """Return the most probable language of a text, of those that can be translated into the target or are it.

        Raises:
            RequestError: with status 400 for a target that the server does not have.
        """
        options = TextOptions(source=AUTO, target=target)
        return self._detected_source(text, options, LanguagePairs(self._lines.pairs))[0]

    async def load(self) -> None:
        """Load the model that detects languages (about 2 s, in a thread). Called when the server starts."""
        await self._detector.load()

    def languages(self) -> list[Language]:
        """Return the languages that can be a source."""
        pairs = LanguagePairs(self._lines.pairs)
        return [Language(code=code, name=name_of(code), targets=pairs.targets(code)) for code in pairs.sources]

    def detect(self, text: str) -> list[Detection]:
        """Return the languages in which a text may be written, most probable first; at least one.

        These may be languages that the server cannot translate. If the language cannot be detected (fewer than about
        three letters), the result is English with confidence 0. The first call takes 2 s, unless `load` was called;
        another one milliseconds.
        """
        return self._detector.candidates(text)

    async def translate(self, texts: Sequence[str], options: TextOptions) -> list[TranslatedText]:
        """Return the translation of each text, in order.

        If the source is "auto", each text has the most probable language of those that the server can translate into
        the target, or the target itself. A text whose source is the target comes back unchanged. If the caller is
        cancelled, all of its sentences are given up.

        Raises:
            RequestError: with status 400 for a language, or a pair of languages, that the server does not have; and as
                `LineTranslator.translate_line`.
        """
        pairs = LanguagePairs(self._lines.pairs)
        texts = [replace_surrogates(text) for text in texts]
        if options.source == AUTO:
            # Detection takes milliseconds per text, and loading its model seconds.
            sources = await asyncio.to_thread(lambda: [self._detected_source(text, options, pairs) for text in texts])
        else:
            sources = [(options.source, None) for _ in texts]
        requests = [_Request(self._lines, text, options, *source) for text, source in zip(texts, sources, strict=True)]
        routes = [pairs.route(request.source, options.target) for request in requests]
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(request.translate(route)) for request, route in zip(requests, routes, strict=True)
                ]
        except BaseExceptionGroup as errors:
            raise _first(errors) from None
        return [task.result() for task in tasks]

    def _detected_source(self, text: str, options: TextOptions, pairs: LanguagePairs) -> tuple[str, Detection | None]:
        # Raises RequestError for a target that the server does not have.
        pairs.route(options.target, options.target)
        targets = pairs.matching(options.target)
        codes = [code for code in pairs.codes if code == targets[0] or set(targets) & set(pairs.targets(code))]
        visible = visible_text(text) if options.format == "html" else text
        detection = self._detector.best_of(codes, visible)
        return detection.language, detection


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


class _Request:
    """The translation of one text.

    Args:
        lines: translates lines.
        text: the text.
        options: how it is translated.
        source: its language.
        detected: its language as detected; None if the client gave it.
    """

    def __init__(
        self, lines: LineTranslator, text: str, options: TextOptions, source: str, detected: Detection | None
    ) -> None:
        self._lines = lines
        self._text = text
        self._options = options
        self.source = source
        self._detected = detected

    async def translate(self, route: Sequence[Pair]) -> TranslatedText:
        """Return the translation by the models of the pairs, one after the other."""
        through = route[0][1] if len(route) > 1 else None
        if not route or not self._text.strip():
            return TranslatedText(
                text=self._text, source=self.source, detected=self._detected, through=through, after=self._text
            )
        # Reading HTML can take a tenth of a second, in which other requests go on.
        split = await asyncio.to_thread(self._split)
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._sentence(piece, route)) for piece in split.pieces]
        except BaseExceptionGroup as errors:
            raise _first(errors) from None
        sentences = [task.result() for task in tasks]
        text, *alternatives = await asyncio.to_thread(
            self._texts, split, [sentence.translation for sentence in sentences]
        )
        return TranslatedText(
            text=text,
            alternatives=tuple(alternatives),
            source=self.source,
            detected=self._detected,
            through=through,
            sentences=tuple(sentences),
            after=split.after,
        )

    def _split(self) -> SplitText:
        split = split_html if self._options.format == "html" else split_plain_text
        return split(self._text, self.source, split_sentences=self._options.split_sentences)

    async def _sentence(self, piece: Piece, route: Sequence[Pair]) -> TranslatedSentence:
        """Translate one sentence; links through a third language are links of both steps put together."""
        count = 1 + self._options.alternatives
        alignment = self._options.alignment or piece.needs_alignment
        # The whole beam, since outputs of different tokens can have the same text.
        beam = max(BEAM, count)
        last = LineOptions(beam=beam, n_best=beam if count > 1 else 1, alignment=alignment)
        guarded: Guarded = ""
        translation: Translation | None = None
        for number, pair in enumerate(route):
            options = last if number == len(route) - 1 else replace(last, n_best=1)
            previous = translation
            line = previous.text if previous else piece.source
            translation, did = await translate_guarded(self._lines, pair, line, options)
            if did == "source":
                # The source, rather than a text in the third language.
                translation = replace(translation, text=piece.source, alternatives=(), copied=len(piece.source))
                guarded = "source"
                break
            guarded = did or guarded
            if previous:
                translation = _put_together(previous, translation)
        assert translation is not None
        return TranslatedSentence(source=piece.source, translation=translation, before=piece.before, guarded=guarded)

    def _texts(self, split: SplitText, translations: Sequence[Translation]) -> list[str]:
        """Return the best text and the alternatives."""
        outputs: list[list[str]] = []
        costs: list[list[float]] = []
        for piece, translation in zip(split.pieces, translations, strict=True):
            scores = {translation.text: translation.score}
            for alternative in translation.alternatives:
                scores.setdefault(alternative.text, alternative.score)
            # Links are those of the best output.
            links = translation.alignment
            outputs.append([piece.rendered(text, links if text == translation.text else None) for text in scores])
            cost = 0.0
            costs.append([cost := max(cost, translation.score - score) for score in scores.values()])

        def text_of(ranks: dict[int, int]) -> str:
            return split.assembled([each[ranks.get(index, 0)] for index, each in enumerate(outputs)])

        return best_combinations(costs, text_of, self._options.alternatives)


def _put_together(first: Translation, second: Translation) -> Translation:
    """Return the second of two steps, with links to the source, and with the flags of both."""
    links = None
    if first.alignment is not None and second.alignment is not None:
        links = tuple(
            sorted(
                {(word, target) for word, mid in first.alignment for other, target in second.alignment if mid == other}
            )
        )
    return replace(second, alignment=links, truncated=first.truncated or second.truncated, cut=first.cut or second.cut)
