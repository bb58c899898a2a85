"""What was found for the pieces of lines, put together to lines again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from dragoman.evaluation.alignment import Link
from dragoman.search.results import Hypothesis, Piece
from dragoman.text.lines import clean_line
from dragoman.text.segmenting import Segment, first_words, join
from dragoman.text.tokenizer import Tokenizer
from dragoman.translation.pieces import SEGMENTS_AT_ONCE, SplitLine
from dragoman.translation.results import Alternative, LineProgress, Translation

# Hypotheses for each piece, best first; at least one each
Find = Callable[[Sequence[Piece]], list[list[Hypothesis]]]
# (source ids, target ids), of several pieces -> the links of each
AlignPieces = Callable[[Sequence[list[int]], Sequence[list[int]]], list[list[Link]]]


@dataclass(frozen=True, kw_only=True)
class _Part:
    """A segment of a line and what it gives.

    source     its text, where links are wanted
    outputs    best first; one for what is copied
    copied     how many characters were copied
    cut        a sentence was cut in its midst
    truncated  the maximum length ended the output
    links      between the words of the part; () if not wanted
    """

    source: str
    outputs: Sequence[Alternative]
    copied: int = 0
    cut: bool = False
    truncated: bool = False
    links: Sequence[Link] = ()


def translate_split(
    lines: Sequence[SplitLine],
    find: Find,
    tokenizer: Tokenizer,
    align: AlignPieces | None = None,
    on_progress: Callable[[LineProgress], None] | None = None,
) -> Iterator[Translation]:
    """Yield the translation of each line, in order.

    Lines of few segments are searched for together. One of many is searched for by itself, `SEGMENTS_AT_ONCE` at a
    time: whatever its length, only so many are in memory before they are text.

    find   searches
    align  aligns the words of pieces and their best hypotheses; None: translations get no alignment
    on_progress   is called before each search for a line of many segments
    """
    few = [line for line in lines if line.more is None]
    together = iter(_translate([(line.segments, line.prefix) for line in few], find, tokenizer, align))
    for line in lines:
        if line.more is None:
            yield _line(line, next(together), with_links=align is not None)
        else:
            parts = _translate_long(line, find, tokenizer, align, on_progress)
            yield _line(line, list(parts), with_links=align is not None)


def _translate_long(
    line: SplitLine,
    find: Find,
    tokenizer: Tokenizer,
    align: AlignPieces | None,
    on_progress: Callable[[LineProgress], None] | None,
) -> Iterator[_Part]:
    assert line.more is not None
    segments, prefix = line.segments, line.prefix
    pieces = characters = 0
    while segments:
        if on_progress is not None:
            on_progress(LineProgress(pieces=pieces, characters=characters, all_characters=len(line.text)))
        [parts] = _translate([(segments, prefix)], find, tokenizer, align)
        yield from parts
        pieces += sum(1 for segment in segments if segment.ids)
        characters += sum(segment.size for segment in segments)
        if pieces:
            prefix = ()
        segments = list(islice(line.more, SEGMENTS_AT_ONCE))


def _translate(
    groups: Sequence[tuple[Sequence[Segment], Sequence[int]]],
    find: Find,
    tokenizer: Tokenizer,
    align: AlignPieces | None,
) -> list[list[_Part]]:
    """Return the parts of each group of segments, whose first piece begins with the group's prefix; one search."""
    pieces: list[Piece] = []
    for segments, prefix in groups:
        sources = [segment.ids for segment in segments if segment.ids]
        pieces += [Piece(source, [] if number else list(prefix)) for number, source in enumerate(sources)]
    found = find(pieces)
    links: list[list[Link]] = [[] for _ in pieces]
    if align is not None:
        links = align([piece.source for piece in pieces], [list(outputs[0].tokens) for outputs in found])
    rest = zip(found, links, strict=True)
    return [
        [
            _piece(segment, *next(rest), tokenizer, with_source=align is not None)
            if segment.ids
            else _copied(segment, with_links=align is not None)
            for segment in segments
        ]
        for segments, _ in groups
    ]


def _piece(
    segment: Segment, outputs: Sequence[Hypothesis], links: Sequence[Link], tokenizer: Tokenizer, *, with_source: bool
) -> _Part:
    texts = tokenizer.decode_target([output.tokens for output in outputs])
    return _Part(
        source=tokenizer.decode_source([segment.ids])[0] if with_source else "",
        outputs=[
            Alternative(text=clean_line(text), log_probability=output.log_probability, score=output.score)
            for text, output in zip(texts, outputs, strict=True)
        ],
        cut=segment.cut,
        truncated=not outputs[0].finished,
        links=links,
    )


def _copied(segment: Segment, *, with_links: bool) -> _Part:
    words = len(segment.copied.split()) if with_links else 0
    return _Part(
        source=segment.copied,
        outputs=[Alternative(text=segment.copied, log_probability=0.0, score=0.0)],
        copied=len(segment.copied),
        # Each word of it comes from itself.
        links=[(word, word) for word in range(words)],
    )


def _line(line: SplitLine, parts: Sequence[_Part], *, with_links: bool) -> Translation:
    """Return the translation whose parts these are."""
    alternatives = _alternatives(parts)
    best = alternatives[0] if alternatives else Alternative(text="", log_probability=0.0, score=0.0)
    return Translation(
        text=best.text,
        log_probability=best.log_probability,
        score=best.score,
        alternatives=alternatives,
        pieces=sum(not part.copied for part in parts),
        cut=any(part.cut for part in parts),
        truncated=any(part.truncated for part in parts),
        invalid_utf8=line.invalid_utf8,
        copied=sum(part.copied for part in parts),
        too_long=line.too_long,
        alignment=_links(line.text, best.text, parts) if with_links else None,
    )


def _alternatives(parts: Sequence[_Part]) -> tuple[Alternative, ...]:
    """Return the outputs of the parts of one line, the r-th of each put together.

    Every rank that all the pieces have; no rank when there is no part.
    """
    copied = {number for number, part in enumerate(parts) if part.copied}
    ranks = min((len(part.outputs) for part in parts if not part.copied), default=min(len(parts), 1))
    alternatives = []
    for rank in range(ranks):
        outputs = [part.outputs[0 if part.copied else rank] for part in parts]
        alternatives.append(
            Alternative(
                text=join([output.text for output in outputs], copied),
                log_probability=sum(output.log_probability for output in outputs),
                score=sum(output.score for output in outputs),
            )
        )
    return tuple(alternatives)


def _links(source: str, target: str, parts: Sequence[_Part]) -> tuple[Link, ...]:
    """Return the links of all parts, their words counted from the beginning of the line."""
    starts = zip(
        first_words(source, [part.source.strip() for part in parts]),
        first_words(target, [part.outputs[0].text.strip() for part in parts]),
        strict=True,
    )
    links = (
        (source_word + first, target_word + begin)
        for (first, begin), part in zip(starts, parts, strict=True)
        for source_word, target_word in part.links
    )
    # Two parts without a space between share a word.
    return tuple(dict.fromkeys(links))
