"""`TranslationService`: what every interface of the server calls to translate texts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from dragoman.serving.lines import LineOptions, LineTranslator
from dragoman.serving.request_error import RequestError
from dragoman.translation.results import Translation

AUTO = "auto"
TextFormat = Literal["text", "html"]


@dataclass(frozen=True, kw_only=True)
class Language:
    """A language of the server.

    Attributes:
        code: code such as "en".
        name: its name in English.
        targets: codes of the languages into which it can be translated, through a third one if need be.
    """

    code: str
    name: str
    targets: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Detection:
    """A language in which a text may be written.

    Attributes:
        language: code such as "en".
        confidence: 0 to 1.
    """

    language: str
    confidence: float


@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """How texts are translated.

    Attributes:
        source: code of the source language, or "auto".
        target: code of the target language.
        format: "text", or "html" to keep the tags.
        alternatives: number of alternatives beside the best translation.
        split_sentences: True to translate the sentences of a line one by one.
        alignment: True to return links between words.
    """

    source: str
    target: str
    format: TextFormat = "text"
    alternatives: int = 0
    split_sentences: bool = True
    alignment: bool = False


@dataclass(frozen=True, kw_only=True)
class TranslatedSentence:
    """One sentence of a text with its translation.

    Attributes:
        source: the sentence, without the white space around it.
        translation: its translation; through a third language, that of the second step.
        before: white space that stands before it in the text, line feeds included.
        guarded: what the guard did: "" if nothing, "greedy" if greedy search replaced the output, "source" if the
            source was copied.
    """

    source: str
    translation: Translation
    before: str = ""
    guarded: Literal["", "greedy", "source"] = ""


@dataclass(frozen=True, kw_only=True)
class TranslatedText:
    """The translation of a text.

    Attributes:
        text: the translation; line feeds and white space at the ends are those of the source.
        alternatives: other translations, best first.
        source: code of the source language, as given or detected.
        detected: what was detected; None if the source language was given.
        through: code of the third language; None if there is a model for the pair.
        sentences: the sentences, in order; `after` is the white space at the end of the text.
        after: see `sentences`.
    """

    text: str
    alternatives: tuple[str, ...] = ()
    source: str
    detected: Detection | None = None
    through: str | None = None
    sentences: tuple[TranslatedSentence, ...] = ()
    after: str = ""

    @property
    def truncated(self) -> bool:
        """True if the end of a sentence may be missing, see `Translation.truncated`."""
        return any(sentence.translation.truncated for sentence in self.sentences)


class TranslationService:
    """Translates texts with the models of a server.

    Args:
        lines: translates lines.
    """

    def __init__(self, lines: LineTranslator) -> None:
        self._lines = lines

    def languages(self) -> list[Language]:
        """Return the languages that can be a source."""
        codes = sorted({source for source, _ in self._lines.pairs})
        return [
            Language(code=code, name=code, targets=tuple(sorted(t for s, t in self._lines.pairs if s == code)))
            for code in codes
        ]

    def detect(self, text: str) -> list[Detection]:
        """Return the languages in which a text may be written, most probable first; at least one."""
        return [Detection(language=self._lines.pairs[0][0], confidence=0.0)]

    async def translate(self, texts: Sequence[str], options: TextOptions) -> list[TranslatedText]:
        """Return the translation of each text, in order.

        If the caller is cancelled, all of its sentences are given up.

        Raises:
            RequestError: with status 400 for a language, or a pair of languages, that the server does not have; and as
                `LineTranslator.translate_line`.
        """
        pair = (options.source, options.target)
        if pair not in self._lines.pairs:
            raise RequestError(400, f"{options.source} to {options.target} is not supported")
        line_options = LineOptions(
            n_best=1 + options.alternatives,
            beam=max(5, 1 + options.alternatives),
            alignment=options.alignment,
        )
        translations = await asyncio.gather(*(self._lines.translate_line(pair, text, line_options) for text in texts))
        return [
            TranslatedText(
                text=translation.text,
                source=options.source,
                alternatives=tuple(each.text for each in translation.alternatives[1:]),
                sentences=(TranslatedSentence(source=text, translation=translation),),
            )
            for text, translation in zip(texts, translations, strict=True)
        ]
