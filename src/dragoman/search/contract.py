"""What every search shares: its settings, what it is given, and the hypotheses it returns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from dragoman.errors import UserError


@dataclass(frozen=True, kw_only=True)
class SearchConfig:
    """Settings of a search; lengths are counted in target tokens without EOS.

    beam             hypotheses kept at each position; 1 is greedy search
    length_penalty   alpha of `length_penalty` below; 0 ranks by plain log-probability, the paper takes 0.6.
                     Models that were trained for minutes end too early with less than 1
    n_best           hypotheses returned for each row, at most `beam`
    max_length_*     longest output: floor(factor * source length) + offset. "Attention Is All You
                     Need", section 6.1: input length + 50
    min_length_*     shortest output, likewise. One token by default, so that words do not vanish

    Raises UserError for values outside their range.
    """

    beam: int = 4
    length_penalty: float = 1.0
    n_best: int = 1
    max_length_factor: float = 1.0
    max_length_offset: int = 50
    min_length_factor: float = 0.0
    min_length_offset: int = 1

    def __post_init__(self) -> None:
        if self.beam < 1:
            raise UserError(f"beam must be at least 1, got {self.beam}")
        if not 1 <= self.n_best <= self.beam:
            raise UserError(
                f"n_best must lie between 1 and the beam ({self.beam}), got {self.n_best}; "
                "a wider beam gives more hypotheses"
            )
        if not 0 <= self.length_penalty < math.inf:
            raise UserError(f"length_penalty must be a number of at least 0, got {self.length_penalty}")
        if not 0 <= self.min_length_factor <= self.max_length_factor < math.inf:
            raise UserError(
                "length factors must satisfy 0 <= min_length_factor <= max_length_factor, "
                f"got {self.min_length_factor} and {self.max_length_factor}"
            )
        if not (0 <= self.min_length_offset <= self.max_length_offset and self.max_length_offset):
            raise UserError(
                "length offsets must satisfy 0 <= min_length_offset <= max_length_offset and "
                f"1 <= max_length_offset, got {self.min_length_offset} and {self.max_length_offset}"
            )

    def maximum_length(self, source_length: int) -> int:
        """The longest output for a source of this many tokens (EOS counted in neither)."""
        return math.floor(self.max_length_factor * source_length) + self.max_length_offset

    def minimum_length(self, source_length: int) -> int:
        """The shortest output for a source of this many tokens (EOS counted in neither)."""
        return math.floor(self.min_length_factor * source_length) + self.min_length_offset


@dataclass(frozen=True, kw_only=True)
class Hypothesis:
    """One output of a search.

    tokens           target ids without EOS
    log_probability  natural logarithm of the model's probability of tokens + EOS: what `score`
                     gives for the same pair, for unfinished hypotheses too
    score            log_probability / length_penalty(len(tokens) + 1, alpha)
    finished         False when the maximum length ended it: EOS was forced there although the
                     model's most probable next token was another one

    Raises FloatingPointError when the log-probability is not a number (weights of a run that
    diverged), since such an output means nothing.
    """

    tokens: tuple[int, ...]
    log_probability: float
    score: float
    finished: bool

    def __post_init__(self) -> None:
        if not math.isfinite(self.log_probability):
            raise FloatingPointError(
                f"the model gives probabilities that are no numbers ({self.log_probability}): "
                "its training diverged or its weights are damaged"
            )


class Piece(NamedTuple):
    """What is searched for at once: source ids without EOS, and the target ids that the output begins with."""

    source: list[int]
    prefix: list[int]


class Searcher(Protocol):
    """Models and a way to search with them: in torch, or compiled."""

    @property
    def description(self) -> str:
        """What computes, in a few words."""

    def search(self, pieces: Sequence[Piece], config: SearchConfig) -> list[list[Hypothesis]]:
        """Hypotheses for each piece, in order, best first; at least one each."""


def length_penalty(length: int, alpha: float) -> float:
    """lp(Y) = ((5 + |Y|) / (5 + 1)) ** alpha; |Y| counts EOS, so that lp = 1 for an empty output.

    "Google's Neural Machine Translation System" (Wu et al., 2016), equation 14.
    """
    return float(((5 + length) / 6) ** alpha)
