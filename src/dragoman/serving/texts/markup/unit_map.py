"""Which words of a translation correspond to those of its source, and which places inside them.

A unit is a word, or a character of a script without spaces.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence

# Longer units are not words. Places inside them are not looked for, since that takes a time proportional to the length.
LONGEST_UNIT = 100


class UnitMap:
    """Boundaries between the units of a source, in its translation.

    A pair of units that correspond maps the boundaries before and after one to those of the other. Between such pairs,
    boundaries are mapped in proportion.

    Args:
        source_units: number of units of the source.
        target_units: number of units of the translation.
        pairs: units of the translation by units of the source, both ascending.
    """

    def __init__(self, source_units: int, target_units: int, pairs: Mapping[int, int]) -> None:
        self._sources = [-1, *pairs, source_units]
        self._targets = [-1, *pairs.values(), target_units]

    def boundary(self, units: int, *, closes: bool) -> int:
        """Return the number of target units before the boundary that has this number of source units before it.

        Args:
            units: number of source units.
            closes: what is there closes after the unit before, rather than opening before the unit after: between two
                units that correspond to two others, these are different places.
        """
        index = max(1, bisect_left(self._sources, units))
        first, last = self._targets[index - 1] + 1, self._targets[index]
        size = self._sources[index] - self._sources[index - 1] - 1
        if not size:
            return first if closes else last
        done = units - self._sources[index - 1] - 1
        return first + (2 * done * (last - first) + size) // (2 * size)


def corresponding_units(
    source: Sequence[str], target: Sequence[str], inner: Mapping[int, Sequence[int]]
) -> dict[int, int]:
    """Return which units of a translation correspond to those units of the source that have tags inside.

    The units are equal, except for case and punctuation around them; or have the same place in proportion, and a place
    for one of the tags, see `offset_in_unit`. Their order is that of the source.

    Args:
        source: units of the source.
        target: units of the translation.
        inner: offsets of tags inside units, by the index of the unit, ascending.
    """
    places: dict[str, list[int]] = {}
    for index, unit in enumerate(target):
        places.setdefault(_word(unit), []).append(index)
    pairs: dict[int, int] = {}
    last = -1
    for index, offsets in inner.items():
        expected = (2 * index + 1) * len(target) // (2 * len(source))
        equal = places.get(_word(source[index]), [])
        if after := equal[bisect_right(equal, last) :]:
            near = bisect_left(after, expected)
            last = min(after[max(0, near - 1) : near + 1], key=lambda place: abs(place - expected))
            pairs[index] = last
        elif last < expected < len(target) and any(
            offset_in_unit(source[index], offset, target[expected]) is not None for offset in offsets
        ):
            pairs[index] = last = expected
    return pairs


def offset_in_unit(source: str, offset: int, target: str) -> int | None:
    """Return the place in a unit of a translation that corresponds to one in a unit of the source; None if none does.

    If the units are equal except for case, it is the same place; likewise inside their words if they differ in the
    punctuation around these. Otherwise it is between a part that is the same in both, has no letters or begins (or
    ends) with punctuation, and another part: between "Hallo" and "1" in "Hallo1" for "Hello1".
    """
    if max(len(source), len(target)) > LONGEST_UNIT:
        return None
    folded_source, folded = source.casefold(), target.casefold()
    if len(folded_source) != len(source) or len(folded) != len(target):
        return None
    if folded_source == folded:
        return offset
    (start, end), (target_start, target_end) = _word_span(folded_source), _word_span(folded)
    if folded_source[start:end] == folded[target_start:target_end] and start <= offset <= end:
        return offset - start + target_start
    before, after = folded_source[:offset], folded_source[offset:]
    if folded.endswith(after) and (not after[0].isalnum() or not any(map(str.isalpha, after))):
        place = len(folded) - len(after)
    elif folded.startswith(before) and (not before[-1].isalnum() or not any(map(str.isalpha, before))):
        place = len(before)
    else:
        return None
    return place if 0 < place < len(folded) and not _is_inside_word(folded, place) else None


def _word(unit: str) -> str:
    start, end = _word_span(unit)
    return unit[start:end].casefold()


def _word_span(unit: str) -> tuple[int, int]:
    """Return where a unit without the punctuation around it begins and ends; all of it if it has nothing else."""
    places = [place for place, character in enumerate(unit) if character.isalnum()]
    return (places[0], places[-1] + 1) if places else (0, len(unit))


def _is_inside_word(text: str, place: int) -> bool:
    before, after = text[place - 1], text[place]
    return (before.isalpha() and after.isalpha()) or (before.isnumeric() and after.isnumeric())
