"""Text with markup as sentences: what HTML and XML have in common."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from dragoman.evaluation.alignment import Link
from dragoman.serving.texts.markup.inline_tags import Side, Tag, with_tags
from dragoman.serving.texts.pieces import Piece, SplitText
from dragoman.serving.texts.sentences import Span, sentence_spans

_SPACE = dict.fromkeys(map(ord, "\t\n\r\f"), " ")


@dataclass(frozen=True)
class MarkupPiece(Piece):
    """A sentence with markup.

    A sentence that the translation does not change is written as it was: its character references and white space.

    Attributes:
        tags: the tags inside the sentence, with their offsets in `source`.
    """

    tags: tuple[tuple[int, Tag], ...] = ()

    @property
    def needs_alignment(self) -> bool:
        """See `Piece`."""
        return bool(self.tags)

    def rendered(self, translation: str, links: Sequence[Link] | None) -> str:
        """See `Piece`."""
        return self.written if translation == self.source else with_tags(self.source, self.tags, translation, links)


@dataclass
class Run:
    """Text that is translated together, with the inline tags in it.

    Attributes:
        text: its characters, in parts.
        offsets: offset of each character in the markup.
        ends: offset in the markup at which each character ends.
        tags: the inline tags, with the number of characters before each.
        piece_type: class of its sentences.
    """

    text: list[str] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    tags: list[tuple[int, Tag]] = field(default_factory=list)
    piece_type: type[MarkupPiece] = MarkupPiece

    def add_text(self, characters: str, offsets: Sequence[int], begin: int) -> None:
        """Add characters.

        Args:
            characters: the characters.
            offsets: where each is written, and where the last one ends. Those of one reference have the same offset.
            begin: what is added to the offsets.
        """
        self.text.append(characters)
        self.offsets += [begin + start for start in offsets[:-1]]
        ends = [0] * (len(offsets) - 1)
        end = offsets[-1]
        for index in reversed(range(len(ends))):
            if offsets[index + 1] != offsets[index]:
                end = offsets[index + 1]
            ends[index] = begin + end
        self.ends += ends

    def add_tag(self, tag: Tag) -> None:
        """Add a tag."""
        self.tags.append((len(self.offsets), tag))


def split_markup(
    text: str,
    runs: Iterable[Run],
    language: str,
    *,
    split_sentences: bool,
) -> SplitText:
    """Split markup into the sentences of its texts. The sentences and what stands between them form the markup.

    Args:
        text: the markup.
        runs: its texts, in order.
        language: see `sentence_spans`.
        split_sentences: see `sentence_spans`; line feeds are spaces.
    """
    pieces: list[Piece] = []
    end = 0
    for run in runs:
        characters = "".join(run.text).translate(_SPACE)
        tag_index = 0
        for span in sentence_spans(characters, language, split_sentences=split_sentences):
            start = max(end, run.offsets[span.start])
            before = text[end:start]
            end = max(start, run.ends[span.end - 1])
            while tag_index < len(run.tags) and run.tags[tag_index][0] <= span.start:
                tag_index += 1
            first_tag = tag_index
            while tag_index < len(run.tags) and run.tags[tag_index][0] < span.end:
                tag_index += 1
            inner = run.tags[first_tag:tag_index]
            source, offsets = _collapsed(characters[span.start : span.end], [at - span.start for at, _ in inner])
            tags = tuple(zip(offsets, _with_sides(characters, span, inner), strict=True))
            pieces.append(run.piece_type(before, source, text[start:end], tags))
    return SplitText(pieces, text[end:])


def _with_sides(characters: str, span: Span, tags: Sequence[tuple[int, Tag]]) -> list[Tag]:
    """Return the tags inside a sentence; those without content with what is on both sides."""

    def side(neighbour: str, *, adjacent: bool) -> Side:
        # Only the outer ones of several tags at one place have a space beside them.
        return "glued" if neighbour.isalnum() else "space" if adjacent and neighbour.isspace() else "free"

    sided = []
    for index, (offset, tag) in enumerate(tags):
        assert span.start < offset < span.end
        if tag.void or tag.kind == "other":
            is_first = not index or tags[index - 1][0] != offset
            is_last = index + 1 == len(tags) or tags[index + 1][0] != offset
            tag = replace(
                tag,
                before=side(characters[offset - 1], adjacent=is_first),
                after=side(characters[offset], adjacent=is_last),
            )
        sided.append(tag)
    return sided


def _collapsed(text: str, offsets: Sequence[int]) -> tuple[str, list[int]]:
    """Return a text with one space for each stretch of spaces, and where offsets in the text are in it."""
    parts: list[str] = []
    moved = []
    begin = length = 0
    ends_in_space = True
    for offset in [*offsets, len(text)]:
        part = re.sub(" {2,}", " ", text[begin:offset])
        part = part[1:] if ends_in_space and part.startswith(" ") else part
        parts.append(part)
        length += len(part)
        moved.append(length)
        ends_in_space = part.endswith(" ") if part else ends_in_space
        begin = offset
    return "".join(parts), moved[:-1]
