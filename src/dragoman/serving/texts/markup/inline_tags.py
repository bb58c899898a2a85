"""Where the inline tags of HTML and XML go in the translation of a sentence.

With links between words, an element surrounds the words that are linked to its words. Without links, or if elements
would overlap, each tag goes to the place in proportion to its place in the source, counted in words. The order of the
tags is kept then, so elements that were nested correctly stay so. A tag inside a word stays there if the translation
has the same word; otherwise it goes before the word if it opens an element, or else after it.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from dragoman.evaluation.alignment import Link
from dragoman.serving.texts.markup.unit_map import UnitMap, corresponding_units, offset_in_unit
from dragoman.text.characters import WITHOUT_SPACES

_UNIT = re.compile(rf"{WITHOUT_SPACES.pattern}|(?:(?!{WITHOUT_SPACES.pattern})\S)+")


Side = Literal["space", "free", "glued"]

# Placing elements by links takes a time that is quadratic in their number.
MOST_LINKED_TAGS = 100


@dataclass(frozen=True)
class Tag:
    """A tag inside a sentence.

    Attributes:
        raw: the tag as it is written.
        kind: kind of its token, see `Token`.
        name: name of the element.
        void: True if the element has no content, or its content is in `raw`.
        before: what must stand before a tag without content: "space", or "free" for anything but a letter or digit;
            "glued" if nothing must.
        after: likewise, after it.
    """

    raw: str
    kind: str
    name: str
    void: bool
    before: Side = "glued"
    after: Side = "glued"


@dataclass
class _Element:
    """An element inside a sentence: its tags, and the units that it surrounds, `start` to `end` (exclusive)."""

    opening: int
    closing: int
    start: int
    end: int


def with_tags(source: str, tags: Sequence[tuple[int, Tag]], translation: str, links: Sequence[Link] | None) -> str:
    """Return a translation as HTML or XML, with the tags of its source.

    Args:
        source: the sentence without tags.
        tags: the tags, in order, each with its offset in the source.
        translation: the translation without tags.
        links: links between words, separated by spaces; None to place the tags in proportion.
    """
    places = _places(source, tags, translation, links)
    parts: list[str] = []
    last = ""
    position = 0
    # What the last tag without content requires of what follows.
    side: Side = "glued"

    def write(text: str) -> None:
        nonlocal last
        if text:
            parts.append(f" {text}" if _lacks_space(side, text[0]) else text)
            last = text[-1]

    for place, index in places:
        tag = tags[index][1]
        if position < place:
            write(html.escape(translation[position:place], quote=False))
            side = "glued"
        position = place
        if tag.kind == "end":
            parts.append(tag.raw)
            continue
        side = "space" if last and _lacks_space(tag.before, last) else side
        write(tag.raw)
        side = tag.after
    write(html.escape(translation[position:], quote=False))
    return "".join(parts)


def _lacks_space(side: Side, neighbour: str) -> bool:
    return not neighbour.isspace() if side == "space" else side == "free" and neighbour.isalnum()


def _places(
    source: str, tags: Sequence[tuple[int, Tag]], translation: str, links: Sequence[Link] | None
) -> list[tuple[int, int]]:
    """Return the offset in the translation and the index of each tag, in the order of the output."""
    elements = _elements(tags)
    if links and len(tags) <= MOST_LINKED_TAGS and 2 * len(elements) == len(tags):
        places = _linked_places(source, tags, translation, links, elements)
        if places is not None:
            return places
    return _proportional_places(source, tags, translation, elements)


def _elements(tags: Sequence[tuple[int, Tag]]) -> list[_Element]:
    """Return the elements that begin and end among the tags and are nested correctly; inner ones first."""
    elements = []
    stack: list[int] = []
    for index, (_, tag) in enumerate(tags):
        if tag.kind == "start" and not tag.void:
            stack.append(index)
        elif tag.kind == "end" and stack and tags[stack[-1]][1].name == tag.name:
            elements.append(_Element(stack.pop(), index, 0, 0))
    return elements


def _linked_places(
    source: str,
    tags: Sequence[tuple[int, Tag]],
    translation: str,
    links: Sequence[Link],
    elements: list[_Element],
) -> list[tuple[int, int]] | None:
    """Return the places of elements around the linked words; None if that is not possible."""
    source_words = [match.span() for match in re.finditer(r"\S+", source)]
    target_words = [match.span() for match in re.finditer(r"\S+", translation)]
    for element in elements:
        begin, end = tags[element.opening][0], tags[element.closing][0]
        marked = {index for index, (start, stop) in enumerate(source_words) if start < end and stop > begin}
        targets = [target for word, target in links if word in marked and target < len(target_words)]
        # Elements inside this one come before it in the list.
        inner = [other for other in elements if element.opening < other.opening and other.closing < element.closing]
        if not targets:
            return None
        element.start = min([*targets, *(other.start for other in inner)])
        element.end = max([max(targets) + 1, *(other.end for other in inner)])
    for index, element in enumerate(elements):
        for other in elements[index + 1 :]:
            is_nested = other.opening < element.opening and element.closing < other.closing
            if not is_nested and element.start < other.end and other.start < element.end:
                return None
    ordered: list[tuple[int, int, int, int]] = []
    for depth, element in enumerate(elements):
        before, after = tags[element.opening][0], tags[element.closing][0]
        first, last = target_words[element.start], target_words[element.end - 1]
        start_inside = _inside_word(source, source_words, before, translation, first)
        end_inside = _inside_word(source, source_words, after, translation, last)
        start = _after_punctuation(source, before, translation, first) if start_inside is None else start_inside
        end = _before_punctuation(source, after, translation, last) if end_inside is None else end_inside
        if start >= end:
            start, end = target_words[element.start][0], target_words[element.end - 1][1]
        # At the same offset, closing tags come before opening ones; inner elements close first and open last.
        ordered += [(start, 1, -depth, element.opening), (end, 0, depth, element.closing)]
    places = [(place, index) for place, _, _, index in sorted(ordered)]
    return places if _is_nested([tags[index][1] for _, index in places]) else None


def _inside_word(
    source: str, words: Sequence[tuple[int, int]], offset: int, translation: str, target_word: tuple[int, int]
) -> int | None:
    """Return the place in a target word that corresponds to an offset inside a source word; None if none does."""
    word = bisect_right(words, offset, key=lambda span: span[1])
    if word == len(words) or not words[word][0] < offset < words[word][1]:
        return None
    (start, end), (target_start, target_end) = words[word], target_word
    place = offset_in_unit(source[start:end], offset - start, translation[target_start:target_end])
    return None if place is None else target_start + place


def _is_nested(tags: Sequence[Tag]) -> bool:
    """Return whether every closing tag ends the innermost open element."""
    stack: list[str] = []
    for tag in tags:
        if tag.kind == "start":
            stack.append(tag.name)
        elif not stack or stack.pop() != tag.name:
            return False
    return not stack


def _proportional_places(
    source: str, tags: Sequence[tuple[int, Tag]], translation: str, elements: list[_Element]
) -> list[tuple[int, int]]:
    source_units = [match.span() for match in _UNIT.finditer(source)]
    target_units = [match.span() for match in _UNIT.finditer(translation)]
    inner = _tags_inside_units(source_units, tags)
    pairs = corresponding_units(
        [source[start:end] for start, end in source_units],
        [translation[start:end] for start, end in target_units],
        inner,
    )
    inside: dict[int, int] = {}
    for index, (offset, _) in enumerate(tags):
        unit = bisect_right(source_units, offset, key=lambda span: span[1])
        if unit in pairs and unit in inner:
            place_inside = _inside_word(source, source_units, offset, translation, target_units[pairs[unit]])
            if place_inside is not None:
                inside[index] = place_inside
    boundaries = _boundaries(source, tags, elements, source_units, target_units, pairs, inside)
    places: list[tuple[int, int]] = []
    previous = 0
    for index, (offset, tag) in enumerate(tags):
        boundary = boundaries[index]
        if index in inside:
            place = inside[index]
        elif _closes(source, offset, tag) and boundary:
            place = _before_punctuation(source, offset, translation, target_units[boundary - 1])
        elif boundary < len(target_units):
            place = _after_punctuation(source, offset, translation, target_units[boundary])
        else:
            place = len(translation)
        previous = max(place, previous)
        places.append((previous, index))
    return places


def _tags_inside_units(units: Sequence[tuple[int, int]], tags: Sequence[tuple[int, Tag]]) -> dict[int, list[int]]:
    """Return the offsets of tags inside units, by the index of the unit; they count from the start of the unit."""
    inner: dict[int, list[int]] = {}
    for offset, _ in tags:
        unit = bisect_right(units, offset, key=lambda span: span[1])
        if unit < len(units) and units[unit][0] < offset:
            inner.setdefault(unit, []).append(offset - units[unit][0])
    return inner


def _closes(source: str, offset: int, tag: Tag) -> bool:
    """Return whether a tag belongs to the word before it: it ends an element, or stands alone and touches the word."""
    has_no_content = tag.void or tag.kind == "other"
    return tag.kind == "end" or (has_no_content and offset > 0 and not source[offset - 1].isspace())


def _boundaries(
    source: str,
    tags: Sequence[tuple[int, Tag]],
    elements: Sequence[_Element],
    source_units: Sequence[tuple[int, int]],
    target_units: Sequence[tuple[int, int]],
    pairs: Mapping[int, int],
    inside: Mapping[int, int],
) -> list[int]:
    """Return the number of target units before each tag, in ascending order.

    An element that has content surrounds at least one unit, if there are enough. Elements that begin or end outside the
    sentence have content there, too, but should have a part of the sentence.

    Args:
        source: the source.
        tags: its tags.
        elements: its elements.
        source_units: its units.
        target_units: units of the translation.
        pairs: units that correspond.
        inside: places of tags inside target units, by the index of the tag.
    """
    count = len(target_units)
    unit_map = UnitMap(len(source_units), count, pairs)
    starts, ends = [start for start, _ in source_units], [end for _, end in source_units]
    opening_of = {element.closing: element.opening for element in elements}
    closing_of = {element.opening: element.closing for element in elements}
    target_starts = [start for start, _ in target_units]
    boundaries: list[int] = []
    # No tag goes before a tag inside a unit that it follows.
    lowest: list[int] = []
    for index, (offset, tag) in enumerate(tags):
        closes = _closes(source, offset, tag)
        # An opening tag inside a word goes before it, a closing one after it.
        before = bisect_left(starts, offset) if closes else bisect_right(ends, offset)
        boundary = max([unit_map.boundary(before, closes=closes), *boundaries[-1:]])
        lowest.append(max([*lowest[-1:], 0]))
        if index in inside:
            lowest[-1] = bisect_right(target_starts, inside[index])
        elif tag.kind == "end":
            opening = opening_of.get(index)
            begin, least = (0, 0) if opening is None else (tags[opening][0], boundaries[opening])
            if begin < offset and opening not in inside:
                boundary = max(boundary, least + 1)
        boundaries.append(min(boundary, count))
    following = count
    for index in reversed(range(len(tags))):
        offset, tag = tags[index]
        highest = following
        if tag.kind == "start" and not tag.void and index not in inside:
            closing = closing_of.get(index)
            end, most = (len(source), count) if closing is None else (tags[closing][0], boundaries[closing])
            if offset < end and closing not in inside:
                highest = min(highest, most - 1)
        following = boundaries[index] = max(min(boundaries[index], highest), lowest[index])
    return boundaries


def _before_punctuation(source: str, offset: int, translation: str, unit: tuple[int, int]) -> int:
    """Return the end of a target word, without punctuation if the tag stands before punctuation in the source."""
    start, end = unit
    if offset < len(source) and _is_punctuation(source[offset]):
        while end > start and _is_punctuation(translation[end - 1]):
            end -= 1
    return end if end > start else unit[1]


def _after_punctuation(source: str, offset: int, translation: str, unit: tuple[int, int]) -> int:
    """Return the start of a target word, without punctuation if the tag stands after punctuation in the source."""
    start, end = unit
    if offset and _is_punctuation(source[offset - 1]):
        while start < end and _is_punctuation(translation[start]):
            start += 1
    return start if start < end else unit[0]


def _is_punctuation(character: str) -> bool:
    return not character.isalnum() and not character.isspace()
