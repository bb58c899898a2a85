"""What a `Translator` searches with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dragoman.search.config import SearchConfig
from dragoman.search.results import Hypothesis, Piece


class Backend(Protocol):
    """Models and a way to search with them: in torch, or compiled."""

    @property
    def description(self) -> str:
        """What computes, in a few words."""

    def search(self, pieces: Sequence[Piece], config: SearchConfig) -> list[list[Hypothesis]]:
        """Hypotheses for each piece, in order, best first; at least one each."""
