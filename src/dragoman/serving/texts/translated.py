"""What `TranslationService` takes and returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from dragoman.serving.texts.markup.tag_options import TagOptions
from dragoman.translation.results import Translation

AUTO = "auto"
TextFormat = Literal["text", "html", "xml"]
Guarded = Literal["", "greedy", "source"]


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
        format: "text", or "html" or "xml" to keep the tags.
        tags: what the tags mean.
        alternatives: number of alternatives beside the best translation.
        split_sentences: True to translate the sentences of a line one by one.
        join_lines: True to take the line breaks of a text without markup for spaces, so that a sentence may have
            several lines; those inside a sentence are spaces in its translation.
        alignment: True to return links between words.
        words: True to return the probability of each word, if it is known.
        prefix: text with which the translation of the first sentence begins.
    """

    source: str
    target: str
    format: TextFormat = "text"
    tags: TagOptions = field(default_factory=TagOptions)
    alternatives: int = 0
    split_sentences: bool = True
    join_lines: bool = False
    alignment: bool = False
    words: bool = False
    prefix: str = ""


@dataclass(frozen=True, kw_only=True)
class TranslatedSentence:
    """One sentence of a text with its translation.

    Attributes:
        source: the sentence, without the white space around it.
        translation: its translation; through a third language, that of the second step.
        before: what stands before it: white space of the text, line feeds included, or a space that is added between
            translations of sentences without one; in HTML, tags too.
        guarded: what the guard did (see `dragoman.serving.texts.guard`): "" if nothing, "greedy" if greedy search
            replaced the output, "source" if the source was copied.
    """

    source: str
    translation: Translation
    before: str = ""
    guarded: Guarded = ""


@dataclass(frozen=True, kw_only=True)
class TranslatedText:
    """The translation of a text.

    Attributes:
        text: the translation; line feeds and white space at the ends are those of the source.
        alternatives: other translations, best first.
        source: code of the source language, as given or detected.
        detected: what was detected; None if the source language was given.
        through: code of the third language; None if there is a model for the pair.
        sentences: the sentences, in order; `after` is what stands after the last one.
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

    @property
    def confidence(self) -> float | None:
        """Mean confidence of the sentences: the expected share of good ones. None if a sentence has none."""
        known = [each for sentence in self.sentences if (each := sentence.translation.confidence) is not None]
        return sum(known) / len(known) if known and len(known) == len(self.sentences) else None
