"""Lines split into pieces that a model can take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from dragoman.errors import SettingsError
from dragoman.text.lines import MAX_LINE_CHARACTERS, read_line
from dragoman.text.segmenting import Segment, segment, surely_too_long
from dragoman.text.tokenizer import Tokenizer

# A line of more segments is translated by itself, so many at a time.
SEGMENTS_AT_ONCE = 64


@dataclass(frozen=True, kw_only=True)
class SplitLine:
    """A line as the search takes it.

    text          the clean line
    segments      none for a line without text
    more          of a line of more than `SEGMENTS_AT_ONCE` segments: the others, made when they are asked for
    prefix        target ids that the translation of the first piece begins with
    too_long      the line has more characters than allowed and is copied
    invalid_utf8  the line was not UTF-8
    """

    text: str
    segments: Sequence[Segment]
    more: Iterator[Segment] | None = None
    prefix: Sequence[int] = ()
    too_long: bool = False
    invalid_utf8: bool


def split_lines(
    lines: Sequence[str | bytes],
    prefixes: Sequence[str | bytes] | None,
    tokenizer: Tokenizer,
    limit: int,
    max_characters: int = MAX_LINE_CHARACTERS,
) -> list[SplitLine]:
    """Read lines and split those of more than `limit` tokens; one of more than `max_characters` is copied as a whole.

    Raises SettingsError when there is not one prefix for each line, or the target is written from right to left: its
    beginning is written last.
    """
    if prefixes is not None and len(prefixes) != len(lines):
        raise SettingsError(f"{len(lines)} lines but {len(prefixes)} prefixes; give one for each")
    read = [read_line(line) for line in lines]
    encode = tokenizer.encode_source
    short = [len(text) <= max_characters and not surely_too_long(text, limit) for text, _ in read]
    rows = iter(encode([text for (text, _), encoded in zip(read, short, strict=True) if encoded]))
    begins = tokenizer.encode_target([read_line(prefix)[0] for prefix in prefixes or [""] * len(lines)])
    split = []
    for (text, invalid), encoded, begin in zip(read, short, begins, strict=True):
        row = next(rows) if encoded else None
        too_long = len(text) > max_characters
        more: Iterator[Segment] | None = None
        if too_long:
            segments = [Segment([], copied=text, size=len(text))]
        elif row is not None and len(row) <= limit:
            segments = [Segment(row, size=len(text))] if row else []
        else:
            more = segment(text, limit, encode)
            segments = list(islice(more, SEGMENTS_AT_ONCE))
            if len(segments) < SEGMENTS_AT_ONCE:
                more = None
        split.append(
            SplitLine(text=text, segments=segments, more=more, prefix=begin, too_long=too_long, invalid_utf8=invalid)
        )
    if tokenizer.right_to_left and any(line.prefix and any(each.ids for each in line.segments) for line in split):
        raise SettingsError("a given beginning needs a model that writes from left to right: leave out the prefixes")
    return split
