"""Text of a continuation as it is written: incomplete characters and possible beginnings of stop strings are held."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dragoman.errors import SettingsError

# Limits that keep the search for stop strings fast.
MOST_STOPS = 100
LONGEST_STOP = 1000


class Decoder(Protocol):
    """Interface of a decoder of token ids that arrive one after the other; see `text.vocabulary.TextDecoder`."""

    def feed(self, ids: Sequence[int]) -> str:
        """Return the text that is certain after these further ids."""

    def end(self) -> str:
        """Return the rest of the text."""


def check_stops(stops: Sequence[str]) -> None:
    """Check the stop strings.

    Raises:
        SettingsError: if there are too many, or one is empty or too long.
    """
    if len(stops) > MOST_STOPS:
        raise SettingsError(f"there are {len(stops):,} stop strings; give at most {MOST_STOPS}")
    if not all(stops):
        raise SettingsError("a stop string is empty; give at least one character")
    if any(len(stop) > LONGEST_STOP for stop in stops):
        raise SettingsError(f"a stop string has more than {LONGEST_STOP:,} characters")


class StopFinder:
    """Finds the first stop string in a text that arrives in pieces.

    The first stop string is the one that ends first; of several that end at the same character, the longest. The result
    does not depend on how the text is divided.

    Args:
        stops: the stop strings.

    Attributes:
        found: True after a stop string has occurred.

    Example:
        >>> finder = StopFinder(["END"])
        >>> [finder.feed(piece) for piece in ("one E", "NE", " two EN", "D three")]
        ['one ', 'EN', 'E two ', '']
    """

    def __init__(self, stops: Sequence[str]) -> None:
        check_stops(stops)
        self.found = False
        self._stops = stops
        self._held = ""

    def feed(self, text: str) -> str:
        """Return the text that is before any stop string, without what may be the beginning of one."""
        assert not self.found
        text = self._held + text
        matches = [(start + len(stop), start) for stop in self._stops if (start := text.find(stop)) >= 0]
        if matches:
            self.found = True
            return text[: min(matches)[1]]
        held = max((_overlap(text, stop) for stop in self._stops), default=0)
        self._held = text[len(text) - held :]
        return text[: len(text) - held]

    def end(self) -> str:
        """Return the rest of a text without a stop string."""
        return self._held


class Writer:
    """Text of one continuation.

    Args:
        decoder: decoder of its token ids.
        stops: the stop strings.

    Attributes:
        text: the text so far, without what is held.
        stopped: True after a stop string has occurred.
    """

    def __init__(self, decoder: Decoder, stops: Sequence[str]) -> None:
        self._decoder = decoder
        self._finder = StopFinder(stops)
        self._parts: list[str] = []

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._parts)

    @property
    def stopped(self) -> bool:
        """True after a stop string has occurred."""
        return self._finder.found

    def write(self, token: int) -> str:
        """Return the text that is certain after this token."""
        return self._add(self._decoder.feed([token]))

    def end(self) -> str:
        """Return the rest of the text, unless a stop string has occurred."""
        if self.stopped:
            return ""
        rest = self._add(self._decoder.end())
        if self.stopped:
            return rest
        held = self._finder.end()
        self._parts.append(held)
        return rest + held

    def _add(self, text: str) -> str:
        certain = self._finder.feed(text) if text else ""
        if certain:
            self._parts.append(certain)
        return certain


def _overlap(text: str, stop: str) -> int:
    """Return the length of the longest end of `text` with which `stop` begins, without being complete."""
    for length in range(min(len(stop) - 1, len(text)), 0, -1):
        if text.endswith(stop[:length]):
            return length
    return 0
