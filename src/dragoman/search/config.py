"""The settings of a search, and the only place of their defaults. Nothing here needs torch."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dragoman.errors import SettingsError

# The size of a batch: its rows, times the length of the longest, times the hypotheses of a row.
DEFAULT_BATCH_TOKENS = 4096


@dataclass(frozen=True, kw_only=True)
class SearchConfig:
    """Settings of a search; lengths are counted in target tokens without EOS.

    Raises SettingsError for values outside their range.
    """

    beam: int = 4
    """Hypotheses kept at each position; 1 is greedy search."""
    length_penalty: float = 1.0
    """Alpha of `length_penalty` below; 0 ranks by plain log-probability, the paper takes 0.6. Models that were trained
    for minutes end too early with less than 1."""
    n_best: int = 1
    """Hypotheses returned for each row, at most `beam`."""
    max_length_factor: float = 1.0
    """The longest output is floor(factor * source length) + offset."""
    max_length_offset: int = 50
    """See `max_length_factor`. "Attention Is All You Need", section 6.1: input length + 50."""
    min_length_factor: float = 0.0
    """The shortest output is floor(factor * source length) + offset."""
    min_length_offset: int = 1
    """See `min_length_factor`. One token by default, so that words do not vanish."""

    def __post_init__(self) -> None:
        if self.beam < 1:
            raise SettingsError(f"beam must be at least 1, got {self.beam}")
        if not 1 <= self.n_best <= self.beam:
            raise SettingsError(
                f"n_best must lie between 1 and the beam ({self.beam}), got {self.n_best}; "
                "a wider beam gives more hypotheses"
            )
        if not 0 <= self.length_penalty < math.inf:
            raise SettingsError(f"length_penalty must be a number of at least 0, got {self.length_penalty}")
        if not 0 <= self.min_length_factor <= self.max_length_factor < math.inf:
            raise SettingsError(
                "length factors must satisfy 0 <= min_length_factor <= max_length_factor, "
                f"got {self.min_length_factor} and {self.max_length_factor}"
            )
        if not (0 <= self.min_length_offset <= self.max_length_offset and self.max_length_offset):
            raise SettingsError(
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
class SamplingConfig:
    """How to draw. The same seed and the same text give the same samples, whatever the batch.

    Raises SettingsError for values outside their range.
    """

    temperature: float = 1.0
    """Logits are divided by it: below 1 is safer, above 1 wilder."""
    top_k: int | None = None
    """Draw among the k most probable tokens only; None: among all."""
    top_p: float = 1.0
    """Draw among the fewest most probable tokens whose probabilities (after temperature and top_k) sum to at least
    this; 1: among all (Holtzman et al., 2020)."""
    samples: int = 1
    """How many to draw for each row; sample i does not depend on this number."""
    seed: int = 0
    """0 to 2**64 - 1."""

    def __post_init__(self) -> None:
        if not 0 < self.temperature < math.inf:
            raise SettingsError(
                f"temperature must be a number above 0, got {self.temperature}; "
                "for the most probable token at each position use a beam of 1"
            )
        if self.top_k is not None and self.top_k < 1:
            raise SettingsError(f"top_k must be at least 1, got {self.top_k}")
        if not 0 < self.top_p <= 1:
            raise SettingsError(f"top_p must lie above 0 and not above 1, got {self.top_p}")
        if self.samples < 1:
            raise SettingsError(f"samples must be at least 1, got {self.samples}")
        if not 0 <= self.seed < 2**64:
            raise SettingsError(f"seed must lie between 0 and 2**64 - 1, got {self.seed}")


def length_penalty(length: int, alpha: float) -> float:
    """lp(Y) = ((5 + |Y|) / (5 + 1)) ** alpha; |Y| counts EOS, so that lp = 1 for an empty output.

    "Google's Neural Machine Translation System" (Wu et al., 2016), equation 14.
    """
    return float(((5 + length) / 6) ** alpha)


DEFAULT_SEARCH = SearchConfig()
