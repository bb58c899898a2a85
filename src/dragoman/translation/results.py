"""Results of a `Translator`."""

from __future__ import annotations

from dataclasses import dataclass

from dragoman.evaluation.alignment import Link


@dataclass(frozen=True, kw_only=True)
class Alternative:
    """One output for a line; for a line of several segments, both numbers are sums over the segments."""

    text: str
    log_probability: float
    score: float


@dataclass(frozen=True, kw_only=True)
class Translation:
    """The translation of one line.

    Attributes:
        text: the best output; "" for a line without text.
        log_probability: natural logarithm of the probability of the best output; 0 for a line without text.
        score: log-probability divided by the length penalty, by which the search ranks; 0 for a line without text.
        alternatives: the `n_best` outputs, best first, or the samples in the order in which they were drawn. The first
            is `text`. Empty for a line without text.
        segments: number of segments that were translated: 1 for a line that was not split, 0 for one without text.
        cut: True if a sentence was too long for one segment and was split.
        truncated: True if the maximum length ended the output (of any segment), so that its end may be missing, or its
            beginning if the model writes from right to left.
        invalid_utf8: True if the line was not valid UTF-8; undecodable bytes were replaced by U+FFFD.
        copied: number of characters of a long line that were copied without translation, since no model has learned
            such text (see `dragoman.text.copying`).
        too_long: True if the line has more characters than allowed, and was copied as a whole.
        tokens: number of target tokens of the best output, the end of each segment included; 0 for a line without text.
        confidence: probability, 0 to 1, that the best output is good (see `dragoman.translation.confidence`); None if
            it is not known.
        word_probabilities: probability of each word of the best output, given the source and the words before it, if
            requested and known, else None. Words are separated by spaces.
        alignment: links (source word, target word) if requested, else None. Words are separated by spaces and counted
            from 0.

    Example:
        >>> from dragoman import Translator
        >>> translator = Translator.load("models/mine")
        >>> [translation] = translator.translate(["Turn off the light."])
        >>> translation.segments, translation.copied, translation.invalid_utf8
        (1, 0, False)
    """

    text: str
    log_probability: float
    score: float
    alternatives: tuple[Alternative, ...]
    segments: int
    cut: bool
    truncated: bool
    invalid_utf8: bool
    copied: int = 0
    too_long: bool = False
    tokens: int = 0
    confidence: float | None = None
    word_probabilities: tuple[float, ...] | None = None
    alignment: tuple[Link, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class LineProgress:
    """Progress of the translation of a long line.

    Attributes:
        segments: number of segments translated so far.
        characters: approximate number of characters translated so far.
        all_characters: number of characters of the line.
    """

    segments: int
    characters: int
    all_characters: int
