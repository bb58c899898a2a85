"""Splitting of long lines into segments that a model can translate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from dragoman.errors import SettingsError
from dragoman.text.lines import MAX_LINE_CHARACTERS, read_line
from dragoman.text.segmenting import Segment, segment, surely_too_long
from dragoman.text.tokenizer import Tokenizer

# A line of more segments is translated by itself, in batches of this many.
SEGMENTS_AT_ONCE = 64


@dataclass(frozen=True, kw_only=True)
class SplitLine:
    """A line split into segments.

    Attributes:
        text: the clean line.
        segments: the first `SEGMENTS_AT_ONCE` segments; none for a line without text.
        more: lazy iterator over the other segments; None if there are no others.
        prefix: target ids with which the translation of the first segment begins.
        too_long: True if the line has more characters than allowed, and is copied.
        invalid_utf8: True if the line was not valid UTF-8.
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
    """Clean and encode lines, and split those of more than `limit` tokens.

    Args:
        lines: text, or UTF-8 bytes.
        prefixes: one per line: text with which its translation begins; None for none.
        tokenizer: the tokenizer of the models.
        limit: largest number of tokens of a segment.
        max_characters: a line of more characters becomes one segment that is copied.

    Returns:
        One split line per line, in order.

    Raises:
        SettingsError: if there is not one prefix per line, or a prefix is given although the model writes from right
            to left, and so writes the beginning last.
    """
    if prefixes is not None and len(prefixes) != len(lines):
        raise SettingsError(f"{len(lines)} lines but {len(prefixes)} prefixes; give one for each line")
    cleaned = [read_line(line) for line in lines]
    encode = tokenizer.encode_source
    # Long lines are split before they are encoded.
    encodable = [len(text) <= max_characters and not surely_too_long(text, limit) for text, _ in cleaned]
    encoded = iter(encode([text for (text, _), is_encodable in zip(cleaned, encodable, strict=True) if is_encodable]))
    prefix_ids = tokenizer.encode_target([read_line(prefix)[0] for prefix in prefixes or [""] * len(lines)])
    split = []
    for (text, invalid_utf8), is_encodable, prefix in zip(cleaned, encodable, prefix_ids, strict=True):
        ids = next(encoded) if is_encodable else None
        too_long = len(text) > max_characters
        more: Iterator[Segment] | None = None
        if too_long:
            segments = [Segment([], copied=text, size=len(text))]
        elif ids is not None and len(ids) <= limit:
            segments = [Segment(ids, size=len(text))] if ids else []
        else:
            more = segment(text, limit, encode)
            segments = list(islice(more, SEGMENTS_AT_ONCE))
            if len(segments) < SEGMENTS_AT_ONCE:
                more = None
        split.append(
            SplitLine(
                text=text, segments=segments, more=more, prefix=prefix, too_long=too_long, invalid_utf8=invalid_utf8
            )
        )
    if tokenizer.right_to_left and any(line.prefix and any(segment.ids for segment in line.segments) for line in split):
        raise SettingsError("prefixes need a model that writes from left to right: leave out the prefixes")
    return split
