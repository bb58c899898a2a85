"""The interface between the server and what runs its models: the translation of one line by one model."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from dragoman.search.config import SearchConfig
from dragoman.translation.results import Translation
from dragoman.translation.translator import Translator

# Source language and target language, such as ("en", "de").
Pair = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class LineOptions:
    """How a line is translated.

    Attributes:
        beam: width of the beam; 1 is greedy search.
        n_best: number of outputs, at most `beam`.
        alignment: True to return links between words.
        alignment_required: True to fail if the model has no links, rather than to return none.
        prefix: text with which the translation begins.
        words: True to return the probability of each word, if the search records it.
        group: number of the request to which the line belongs: requests share the engine equally.
    """

    beam: int = 5
    n_best: int = 1
    alignment: bool = False
    alignment_required: bool = True
    prefix: str = ""
    words: bool = False
    group: int = 0


class LineTranslator(Protocol):
    """Translates lines by the model of a language pair."""

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """The language pairs for which there is a model."""
        ...

    async def translate_line(self, pair: Pair, line: str, options: LineOptions) -> Translation:
        """Return the translation of a line without line feeds.

        If the caller is cancelled, the line is given up, and its place is free within a step of the search.

        Raises:
            RequestError: with status 503 if the line was lost with its worker, or the server is full.
        """
        ...


class LocalLines:
    """Translates lines in this process, one at a time: for tests and small uses.

    Args:
        translators: the translator of each pair.
    """

    def __init__(self, translators: Mapping[Pair, Translator]) -> None:
        self._translators = dict(translators)
        self._lock = asyncio.Lock()

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """See `LineTranslator`."""
        return tuple(self._translators)

    async def translate_line(self, pair: Pair, line: str, options: LineOptions) -> Translation:
        """See `LineTranslator`."""
        search = SearchConfig(beam=options.beam, n_best=options.n_best)
        prefixes = [options.prefix] if options.prefix else None
        async with self._lock:
            [translation] = await asyncio.to_thread(
                self._translators[pair].translate, [line], search=search, prefixes=prefixes
            )
        return translation
