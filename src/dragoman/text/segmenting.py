"""Lines that are longer than what a model was trained on, split into pieces."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from dragoman.text.characters import WITHOUT_SPACES
from dragoman.text.copying import copied_stretches

# A sentence ends after . ! ? … and closing quotes, if white space follows; after the full-width marks
# of Chinese and Japanese, which need no space. Possessive (*+), so that hostile text costs linear time.
_SENTENCE_END = re.compile(r"""(?<=[.!?…])["'”’»)\]]*+\s++ | (?<=[。！？])(?![。！？])["'”’」』）]*+\s*+""", re.VERBOSE)

_WORD_BEGINS = re.compile("(?<![^ ])[^ ]")

Encode = Callable[[Sequence[str]], list[list[int]]]


# Sentences that are encoded at a time.
_SENTENCES_AT_ONCE = 64
# No vocabulary has subwords that are longer on average: a text of more characters for each token does not fit.
_LONGEST_SUBWORD = 100


class Segment(NamedTuple):
    """A part of a line.

    ids     of the tokens, at most the limit; none when the text is copied
    copied  the text if it is copied, with the white space around it; "" if it is for a model
    cut     a sentence was cut in its midst to make this part
    size    how many characters of the line it is, about
    """

    ids: list[int]
    copied: str = ""
    cut: bool = False
    size: int = 0


def sentences(line: str) -> Iterator[str]:
    """Yield the line at its sentence ends; joined, the parts give the line again."""
    start = 0
    for match in _SENTENCE_END.finditer(line):
        yield line[start : match.end()]
        start = match.end()
    if start < len(line):
        yield line[start:]


def surely_too_long(text: str, limit: int) -> bool:
    """Say whether a text has so many characters that it need not be encoded: it has more than `limit` tokens."""
    return len(text) > _LONGEST_SUBWORD * limit


def segment(line: str, limit: int, encode: Encode) -> Iterator[Segment]:
    """Yield the parts of a line that has more than `limit` tokens, losing nothing but white space.

    What no model has learned is copied: see `copying`. The rest is split into pieces of at most `limit` tokens: whole
    sentences, as many as fit. A sentence that does not fit is halved, at a space if possible, until its parts do. Takes
    little more than the next part's share of the time and memory before it yields it, however long the line.
    """
    end = 0
    for start, stop in [*copied_stretches(line), (len(line), len(line))]:
        for text in _packed(line[end:start], limit, encode):
            yield from _fitting(text, limit, encode)
        if start < stop:
            yield Segment([], copied=line[start:stop], size=stop - start)
        end = stop


def _packed(text: str, limit: int, encode: Encode) -> Iterator[str]:
    """Yield whole sentences, as many as fit together, or one that does not fit."""
    parts = sentences(text)
    packed, room = "", limit
    while some := list(islice(parts, _SENTENCES_AT_ONCE)):
        # What is surely too long is not encoded as a whole.
        rows = iter(encode([part.strip() for part in some if not surely_too_long(part, limit)]))
        for part in some:
            size = limit if surely_too_long(part, limit) else len(next(rows))
            if size > room:
                yield packed
                packed, room = "", limit
            packed += part
            room -= size
    yield packed


def _fitting(text: str, limit: int, encode: Encode) -> Iterator[Segment]:
    """Yield the text as one piece, or halved until its parts fit."""
    waiting = [text.strip()]
    cut = False
    while waiting:
        text = waiting.pop()
        if not text:
            continue
        ids = None if surely_too_long(text, limit) else encode([text])[0]
        if ids is not None and len(ids) <= limit:
            yield Segment(ids, cut=cut, size=len(text))
            continue
        cut = True
        if len(text) > 1:
            waiting += reversed(_halves(text))
        else:  # one character of more bytes than the limit has tokens
            assert ids is not None
            for start in range(0, len(ids), limit):
                yield Segment(ids[start : start + limit], cut=True, size=1)


def _halves(text: str) -> list[str]:
    """The text in two, at the last space of its first half, or else in the middle."""
    middle = len(text) // 2
    space = text.rfind(" ", 0, middle + 1)
    at = space if space > 0 else middle
    return [half for half in (text[:at].strip(), text[at:].strip()) if half]


def join(pieces: Sequence[str], copied: Collection[int] = ()) -> str:
    """Return translated pieces as one line: a space between two, none beside a script without spaces.

    copied  the numbers of the pieces that are copied, which bring their white space
    """
    line: list[str] = []
    last = ""
    glued = True  # nothing goes between what there is and the next piece
    for number, piece in enumerate(pieces):
        if not piece:
            continue
        if number in copied:
            glued = True
        elif not glued and not (WITHOUT_SPACES.match(last[-1]) and WITHOUT_SPACES.match(piece[0])):
            line.append(" ")
        line.append(piece)
        last = piece
        glued = number in copied
    return "".join(line).strip()


def first_words(line: str, pieces: Sequence[str]) -> list[int]:
    """Of the pieces that make up `line`, in order: which word of it, from 0, the first of each belongs to.

    Words are what is between spaces; without a space between them, two pieces share a word.
    """
    numbers: list[int] = []
    end = counted = words = 0
    for piece in pieces:
        start = end
        while start < len(line) and line[start].isspace():
            start += 1
        if not piece or not line.startswith(piece, start):
            # A character that was cut between its bytes is not to be found: its pieces are where the last one ended.
            start = end
        # Of the words that begin before the piece.
        words += sum(1 for _ in _WORD_BEGINS.finditer(line, counted, start))
        counted = start
        numbers.append(words if start == 0 or line[start - 1] == " " else words - 1)
        end = start + len(piece)
    return numbers
