"""Lines that are longer than what a model was trained on, split into pieces."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from dragoman.text.characters import WITHOUT_SPACES

# A sentence ends after . ! ? … and closing quotes, if white space follows; after the full-width marks
# of Chinese and Japanese, which need no space. Possessive (*+), so that hostile text costs linear time.
_SENTENCE_END = re.compile(r"""(?<=[.!?…])["'”’»)\]]*+\s++ | (?<=[。！？])(?![。！？])["'”’」』）]*+\s*+""", re.VERBOSE)

Encode = Callable[[Sequence[str]], list[list[int]]]


@dataclass(frozen=True)
class Segments:
    """A line in pieces that a model can take.

    pieces  token ids of each piece, at most the limit; none for a line without text
    cut     True when some sentence did not fit and was cut in its midst
    """

    pieces: list[list[int]]
    cut: bool


def sentences(line: str) -> list[str]:
    """The line at its sentence ends; joined, the pieces give the line again."""
    ends = [0, *(match.end() for match in _SENTENCE_END.finditer(line)), len(line)]
    return [line[a:b] for a, b in pairwise(ends) if a < b]


def segment(line: str, ids: list[int], limit: int, encode: Encode) -> Segments:
    """Split a line whose tokens are `ids` into pieces of at most `limit` tokens, losing none.

    Pieces are whole sentences, as many as fit. A sentence that does not fit is halved, at a space if
    possible, until its parts do.
    """
    if len(ids) <= limit:
        return Segments([ids] if ids else [], cut=False)
    parts = sentences(line)
    packed, room = [""], limit
    for part, part_ids in zip(parts, encode([part.strip() for part in parts]), strict=True):
        if len(part_ids) > room:
            packed.append("")
            room = limit
        packed[-1] += part
        room -= len(part_ids)
    pieces: list[list[int]] = []
    cut = False
    waiting = [text.strip() for text in packed if text.strip()]
    waiting.reverse()
    while waiting:
        text = waiting.pop()
        (piece,) = encode([text])
        if len(piece) <= limit:
            pieces.append(piece)
            continue
        cut = True
        if len(text) > 1:
            waiting += reversed(_halves(text))
        else:  # one character of more bytes than the limit has tokens
            pieces += [piece[i : i + limit] for i in range(0, len(piece), limit)]
    return Segments(pieces, cut)


def _halves(text: str) -> list[str]:
    """The text in two, at the last space of its first half, or else in the middle."""
    middle = len(text) // 2
    space = text.rfind(" ", 0, middle + 1)
    at = space if space > 0 else middle
    return [half for half in (text[:at].strip(), text[at:].strip()) if half]


def join(pieces: Sequence[str]) -> str:
    """Translated pieces as one line: a space between two, none beside a script without spaces."""
    line = ""
    for piece in filter(None, pieces):
        if line and not (WITHOUT_SPACES.match(line[-1]) and WITHOUT_SPACES.match(piece[0])):
            line += " "
        line += piece
    return line


def first_words(line: str, pieces: Sequence[str]) -> list[int]:
    """Of the pieces that make up `line`, in order: which word of it, from 0, the first of each belongs to.

    Words are what is between spaces; without a space between them, two pieces share a word.
    """
    numbers: list[int] = []
    end = 0
    for piece in pieces:
        # A character that was cut between its bytes is not to be found: its pieces are where the last one ended.
        start = max(line.find(piece, end), end)
        before = len([word for word in line[:start].split(" ") if word])
        numbers.append(before if start == 0 or line[start - 1] == " " else before - 1)
        end = start + len(piece)
    return numbers
