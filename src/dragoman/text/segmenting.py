"""Splitting of lines that are longer than a model was trained on into segments, and joining of the outputs."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from dragoman.text.characters import WITHOUT_SPACES
from dragoman.text.copying import copied_stretches

# A sentence ends after . ! ? … and closing quotes if white space follows, and after the full-width marks of Chinese and
# Japanese even without white space. The quantifiers are possessive (*+), so that any text takes linear time.
_SENTENCE_END = re.compile(r"""(?<=[.!?…])["'”’»)\]]*+\s++ | (?<=[。！？])(?![。！？])["'”’」』）]*+\s*+""", re.VERBOSE)

_WORD_BEGINS = re.compile("(?<![^ ])[^ ]")

Encode = Callable[[Sequence[str]], list[list[int]]]

# Number of sentences that are encoded at a time.
_SENTENCES_AT_ONCE = 64
# Upper limit for the mean length of subwords, in characters. Texts with more characters per token do not exist.
_LONGEST_SUBWORD = 100


class Segment(NamedTuple):
    """Part of a line that is translated or copied on its own.

    Attributes:
        ids: token ids, at most as many as the limit; empty if the text is copied.
        copied: the text to copy, including the white space around it; "" if the segment is to be translated.
        cut: True if a sentence had to be cut to make this segment.
        size: approximate number of characters of the line in this segment.
    """

    ids: list[int]
    copied: str = ""
    cut: bool = False
    size: int = 0


def sentences(line: str) -> Iterator[str]:
    """Yield the sentences of a line, each with the white space after it; their concatenation equals the line."""
    start = 0
    for match in _SENTENCE_END.finditer(line):
        yield line[start : match.end()]
        start = match.end()
    if start < len(line):
        yield line[start:]


def surely_too_long(text: str, limit: int) -> bool:
    """Return True if the number of characters alone proves that a text has more than `limit` tokens."""
    return len(text) > _LONGEST_SUBWORD * limit


def segment(line: str, limit: int, encode: Encode) -> Iterator[Segment]:
    """Yield the segments of a line that has more than `limit` tokens, without losing anything except white space.

    Text that no model has learned is copied, see `copying`. The rest is split into segments of at most `limit` tokens,
    each with as many whole sentences as fit. A sentence that does not fit is halved, at a space if possible, until its
    parts fit. Segments are computed lazily: time and memory needed for the next one do not depend on the length of the
    line, apart from one search for text to copy.

    Args:
        line: the line.
        limit: maximum number of tokens in a segment.
        encode: function that returns the token ids of each text.
    """
    end = 0
    for start, stop in [*copied_stretches(line), (len(line), len(line))]:
        for text in _packed(line[end:start], limit, encode):
            yield from _fitting(text, limit, encode)
        if start < stop:
            yield Segment([], copied=line[start:stop], size=stop - start)
        end = stop


def _packed(text: str, limit: int, encode: Encode) -> Iterator[str]:
    """Yield texts of as many whole sentences as fit into the limit; a sentence that does not fit is a text alone."""
    remaining = sentences(text)
    packed, room = "", limit
    while batch := list(islice(remaining, _SENTENCES_AT_ONCE)):
        # A sentence that is too long by its number of characters is not encoded as a whole.
        rows = iter(encode([sentence.strip() for sentence in batch if not surely_too_long(sentence, limit)]))
        for sentence in batch:
            size = limit if surely_too_long(sentence, limit) else len(next(rows))
            if size > room:
                yield packed
                packed, room = "", limit
            packed += sentence
            room -= size
    yield packed


def _fitting(text: str, limit: int, encode: Encode) -> Iterator[Segment]:
    """Yield the text as one segment, or halve it until its parts fit."""
    stack = [text.strip()]
    cut = False
    while stack:
        text = stack.pop()
        if not text:
            continue
        ids = None if surely_too_long(text, limit) else encode([text])[0]
        if ids is not None and len(ids) <= limit:
            yield Segment(ids, cut=cut, size=len(text))
            continue
        cut = True
        if len(text) > 1:
            stack += reversed(_halves(text))
        else:  # one character, encoded in more bytes than the limit has tokens
            assert ids is not None
            for start in range(0, len(ids), limit):
                yield Segment(ids[start : start + limit], cut=True, size=1)


def _halves(text: str) -> list[str]:
    """Return the text split at the last space of its first half, or in the middle if there is none."""
    middle = len(text) // 2
    space = text.rfind(" ", 0, middle + 1)
    at = space if space > 0 else middle
    return [half for half in (text[:at].strip(), text[at:].strip()) if half]


def join(segments: Sequence[str], copied: Collection[int] = ()) -> str:
    """Return translated segments as one line, with a space between two unless both belong to a script without spaces.

    Args:
        segments: the outputs, in order.
        copied: indices of the segments that were copied and so contain the white space around them.
    """
    line: list[str] = []
    last = ""
    glued = True  # no space is inserted before the next segment
    for index, text in enumerate(segments):
        if not text:
            continue
        if index in copied:
            glued = True
        elif not glued and not (WITHOUT_SPACES.match(last[-1]) and WITHOUT_SPACES.match(text[0])):
            line.append(" ")
        line.append(text)
        last = text
        glued = index in copied
    return "".join(line).strip()


def first_words(line: str, segments: Sequence[str]) -> list[int]:
    """Return for each segment of a line the index of the word of the line in which it begins.

    Words are separated by spaces. Two segments without a space between them share a word.

    Args:
        line: the line.
        segments: its segments, in order, without the white space around them.
    """
    indices: list[int] = []
    end = counted = words = 0
    for text in segments:
        start = end
        while start < len(line) and line[start].isspace():
            start += 1
        if not text or not line.startswith(text, start):
            # A character whose bytes were divided among segments is not in the line: these segments are placed where
            # the previous one ended.
            start = end
        # Add the words that begin before this segment.
        words += sum(1 for _ in _WORD_BEGINS.finditer(line, counted, start))
        counted = start
        indices.append(words if start == 0 or line[start - 1] == " " else words - 1)
        end = start + len(text)
    return indices
