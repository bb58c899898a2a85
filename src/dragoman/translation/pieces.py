"""Lines split into pieces that a model can take, and what was found for the pieces put together to lines again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dragoman.errors import SettingsError
from dragoman.evaluation.alignment import Link
from dragoman.search.results import Hypothesis, Piece
from dragoman.text.lines import clean_line, read_line
from dragoman.text.segmenting import first_words, join, segment
from dragoman.text.tokenizer import Tokenizer
from dragoman.translation.results import Alternative, Translation

# (source ids, target ids), of several pieces -> the links of each
AlignPieces = Callable[[Sequence[list[int]], Sequence[list[int]]], list[list[Link]]]
# Hypotheses for each piece of a line
Found = Sequence[Sequence[Hypothesis]]


@dataclass(frozen=True, kw_only=True)
class SplitLine:
    """A line as the search takes it.

    text          the clean line
    pieces        none for a line without text; the first begins with what was asked for
    cut           some sentence did not fit into a piece and was cut in its midst
    invalid_utf8  the line was not UTF-8
    """

    text: str
    pieces: list[Piece]
    cut: bool
    invalid_utf8: bool


def split_lines(
    lines: Sequence[str | bytes], prefixes: Sequence[str | bytes] | None, tokenizer: Tokenizer, limit: int
) -> list[SplitLine]:
    """Read lines and split those of more than `limit` tokens.

    Raises SettingsError when there is not one prefix for each line, or the target is written from right to left: its
    beginning is written last.
    """
    if prefixes is not None and len(prefixes) != len(lines):
        raise SettingsError(f"{len(lines)} lines but {len(prefixes)} prefixes; give one for each")
    read = [read_line(line) for line in lines]
    encode = tokenizer.encode_source
    ids = encode([text for text, _ in read])
    begins = tokenizer.encode_target([read_line(prefix)[0] for prefix in prefixes or [""] * len(lines)])
    split = []
    for (text, invalid), row, begin in zip(read, ids, begins, strict=True):
        segments = segment(text, row, limit, encode)
        pieces = [Piece(source, [] if number else begin) for number, source in enumerate(segments.pieces)]
        split.append(SplitLine(text=text, pieces=pieces, cut=segments.cut, invalid_utf8=invalid))
    if tokenizer.right_to_left and any(piece.prefix for line in split for piece in line.pieces):
        raise SettingsError("a given beginning needs a model that writes from left to right: leave out the prefixes")
    return split


def put_together(
    lines: Sequence[SplitLine], found: Found, tokenizer: Tokenizer, align: AlignPieces | None = None
) -> list[Translation]:
    """Return the translation of each line.

    found  hypotheses for each piece of all lines, in order
    align  aligns the words of pieces and their best hypotheses; None: translations get no alignment
    """
    rest = iter(found)
    by_line = [[next(rest) for _ in line.pieces] for line in lines]
    translations = [_translation(line, outputs, tokenizer) for line, outputs in zip(lines, by_line, strict=True)]
    if align is None:
        return translations
    links = iter(
        align([piece.source for line in lines for piece in line.pieces], [list(output[0].tokens) for output in found])
    )
    return [
        _aligned(line, outputs, translation, [next(links) for _ in outputs], tokenizer)
        for line, outputs, translation in zip(lines, by_line, translations, strict=True)
    ]


def _translation(line: SplitLine, outputs: Found, tokenizer: Tokenizer) -> Translation:
    alternatives = _alternatives(outputs, tokenizer)
    return Translation(
        text=alternatives[0].text if alternatives else "",
        log_probability=alternatives[0].log_probability if alternatives else 0.0,
        score=alternatives[0].score if alternatives else 0.0,
        alternatives=alternatives,
        pieces=len(line.pieces),
        cut=line.cut,
        truncated=any(not output[0].finished for output in outputs),
        invalid_utf8=line.invalid_utf8,
    )


def _alternatives(outputs: Found, tokenizer: Tokenizer) -> tuple[Alternative, ...]:
    """Return the outputs of the pieces of one line, the r-th of each put together, as text."""
    alternatives = []
    # Every rank that all the pieces have; no rank when there is no piece.
    for rank in zip(*outputs, strict=False):
        texts = tokenizer.decode_target([hypothesis.tokens for hypothesis in rank])
        alternatives.append(
            Alternative(
                text=join([clean_line(text) for text in texts]),
                log_probability=sum(hypothesis.log_probability for hypothesis in rank),
                score=sum(hypothesis.score for hypothesis in rank),
            )
        )
    return tuple(alternatives)


def _aligned(
    line: SplitLine, outputs: Found, translation: Translation, links: Sequence[list[Link]], tokenizer: Tokenizer
) -> Translation:
    """Return the translation with the links of its pieces, whose words now count from the beginning of the line."""
    said = [clean_line(text) for text in tokenizer.decode_target([output[0].tokens for output in outputs])]
    starts = zip(
        first_words(line.text, tokenizer.decode_source([piece.source for piece in line.pieces])),
        first_words(translation.text, said),
        strict=True,
    )
    return replace(
        translation,
        alignment=tuple(
            (source + first, target + begin)
            for (first, begin), some in zip(starts, links, strict=True)
            for source, target in some
        ),
    )
