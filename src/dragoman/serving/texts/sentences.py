"""Splitting of a text into lines and sentences, so that nothing is lost between them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import sentencex

from dragoman.serving.language_codes import base_of
from dragoman.text.characters import WITHOUT_SPACES
from dragoman.text.lines import LINE_BREAK


@dataclass(frozen=True)
class Span:
    """A sentence: `text[start:end]`, without white space at its ends."""

    start: int
    end: int


def sentence_spans(text: str, language: str, *, split_sentences: bool = True) -> list[Span]:
    """Return the sentences of a text, in order; what stands between them is white space, line breaks and NUL.

    A line ends at every character that `dragoman.text.lines.clean_line` replaces: all line breaks of Unicode, and
    NUL. So no sentence contains one, and cleaning a sentence changes nothing.

    Args:
        text: the text, without lone surrogates.
        language: code of its language, of which the base language counts ("de" for "de-AT"). For a language without
            rules of its own, sentencex uses those of a related one, and for an unknown code those of English: a
            sentence that is not split is still translated.
        split_sentences: False to return the lines.
    """
    spans = []
    for start, end in _lines(text):
        line = text[start:end]
        pieces = _sentences(line, language) if split_sentences and not line.isspace() else [line]
        for piece in pieces:
            stripped = piece.strip()
            if stripped:
                begin = start + len(piece) - len(piece.lstrip())
                spans.append(Span(begin, begin + len(stripped)))
            start += len(piece)
    return spans


def _lines(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for match in LINE_BREAK.finditer(text):
        yield start, match.start()
        start = match.end()
    yield start, len(text)


def _sentences(line: str, language: str) -> list[str]:
    pieces = sentencex.segment(base_of(language), line)
    assert "".join(pieces) == line, line
    return pieces


def joined_by_space(source: str, before: str, after: str) -> bool:
    """Return whether a space must be added between two translations between whose sources there is none.

    Sentences of scripts without spaces follow each other directly; in a script with spaces, one separates them.

    Args:
        source: the first sentence.
        before: its translation.
        after: the translation of the next sentence.
    """
    if not (source and before and after):
        return False
    without_space = WITHOUT_SPACES.match
    return bool(without_space(source[-1])) and not without_space(before[-1]) and not without_space(after[0])
