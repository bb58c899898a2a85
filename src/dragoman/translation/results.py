"""What a translator returns."""

from __future__ import annotations

from dataclasses import dataclass

from dragoman.evaluation.alignment import Link


@dataclass(frozen=True, kw_only=True)
class Alternative:
    """One output for a line; for a line in several pieces both numbers are sums over them."""

    text: str
    log_probability: float
    score: float


@dataclass(frozen=True, kw_only=True)
class Translation:
    """The translation of one line.

    text, log_probability, score   the best output; "", 0 and 0 for a line without text
    alternatives   the `n_best` outputs, best first, or the samples in the order drawn; the first is
                   the one above. Empty for a line without text
    pieces         into how many pieces for the model the line was split because of its length; 0 without text
    cut            some sentence was too long for one piece and was cut in its midst
    truncated      the maximum length ended the output (of some piece), not the model; from right to left, what is
                   missing is the beginning
    alignment      if asked for: (source word, target word), from 0, words being what is between spaces
    invalid_utf8   the line was not UTF-8; what could not be read was taken as U+FFFD
    copied         how many characters of a line that was split are copied as they were: no model has learned such text
                   (see `text.copying`)
    too_long       the line has more characters than allowed, and is copied as a whole
    """

    text: str
    log_probability: float
    score: float
    alternatives: tuple[Alternative, ...]
    pieces: int
    cut: bool
    truncated: bool
    invalid_utf8: bool
    copied: int = 0
    too_long: bool = False
    alignment: tuple[Link, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class LineProgress:
    """How far the translation of a long line is: pieces done; characters done, about, and of the line."""

    pieces: int
    characters: int
    all_characters: int
