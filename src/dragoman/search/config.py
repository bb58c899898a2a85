"""The settings of a search, and the only place of their defaults. Nothing here needs torch."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dragoman.errors import SettingsError

# The size of a batch: its rows, times the length of the longest, times the hypotheses of a row.
DEFAULT_BATCH_TOKENS = 4096
# Bounds of what may be asked for, whatever searches. The time of a position grows faster than the beam: with 200
# hypotheses a line takes seconds, with 1,000 minutes, and translations get no better beyond a few dozen.
MAX_BEAM = 200
MAX_SAMPLES = 1024
# No model here was trained on outputs of more than some hundred tokens.
LONGEST_OUTPUT = 4096
# The penalty of the longest output stays a number, in float32 too.
MAX_LENGTH_PENALTY = 10.0
# A logit divided by it stays a number.
MIN_TEMPERATURE = 1e-6
LARGEST_BATCH_TOKENS = 2**30


@dataclass(frozen=True, kw_only=True)
class SearchConfig:
    """Settings of a search; lengths are counted in target tokens without EOS.

    Raises SettingsError for values outside their range.
    """

    beam: int = 4
    """Hypotheses kept at each position, at most 200; 1 is greedy search."""
    length_penalty: float = 1.0
    """Alpha of `length_penalty` below, at most 10; 0 ranks by plain log-probability, the paper takes 0.6. Models that
    were trained for minutes end too early with less than 1."""
    n_best: int = 1
    """Hypotheses returned for each row, at most `beam`."""
    max_length_factor: float = 1.0
    """The longest output is floor(factor * source length) + offset, and never longer than 4,096 tokens."""
    max_length_offset: int = 50
    """See `max_length_factor`. "Attention Is All You Need", section 6.1: input length + 50."""
    min_length_factor: float = 0.0
    """The shortest output is floor(factor * source length) + offset."""
    min_length_offset: int = 1
    """See `min_length_factor`. One token by default, so that words do not vanish."""

    def __post_init__(self) -> None:
        if not 1 <= self.beam <= MAX_BEAM:
            raise SettingsError(f"beam must lie between 1 and {MAX_BEAM}, got {self.beam}")
        if not 1 <= self.n_best <= self.beam:
            raise SettingsError(
                f"n_best must lie between 1 and the beam ({self.beam}), got {self.n_best}; "
                "a wider beam gives more hypotheses"
            )
        if not 0 <= self.length_penalty <= MAX_LENGTH_PENALTY:
            raise SettingsError(
                f"length_penalty must be a number between 0 and {MAX_LENGTH_PENALTY:g}, got {self.length_penalty}"
            )
        if not 0 <= self.min_length_factor <= self.max_length_factor <= LONGEST_OUTPUT:
            raise SettingsError(
                f"length factors must satisfy 0 <= min_length_factor <= max_length_factor <= {LONGEST_OUTPUT:,} (the "
                f"longest output), got {self.min_length_factor} and {self.max_length_factor}"
            )
        if not (0 <= self.min_length_offset <= self.max_length_offset <= LONGEST_OUTPUT and self.max_length_offset):
            raise SettingsError(
                "length offsets must satisfy 0 <= min_length_offset <= max_length_offset and "
                f"1 <= max_length_offset <= {LONGEST_OUTPUT:,} (the longest output), "
                f"got {self.min_length_offset} and {self.max_length_offset}"
            )

    def maximum_length(self, source_length: int) -> int:
        """The longest output for a source of this many tokens (EOS counted in neither)."""
        return _length(self.max_length_factor, source_length, self.max_length_offset)

    def minimum_length(self, source_length: int) -> int:
        """The shortest output for a source of this many tokens (EOS counted in neither)."""
        return _length(self.min_length_factor, source_length, self.min_length_offset)


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
        if not MIN_TEMPERATURE <= self.temperature < math.inf:
            raise SettingsError(
                f"temperature must be a number of at least {MIN_TEMPERATURE}, got {self.temperature}; "
                "for the most probable token at each position use a beam of 1"
            )
        if self.top_k is not None and self.top_k < 1:
            raise SettingsError(f"top_k must be at least 1, got {self.top_k}")
        if not 0 < self.top_p <= 1:
            raise SettingsError(f"top_p must lie above 0 and not above 1, got {self.top_p}")
        if not 1 <= self.samples <= MAX_SAMPLES:
            raise SettingsError(f"samples must lie between 1 and {MAX_SAMPLES:,}, got {self.samples}")
        if not 0 <= self.seed < 2**64:
            raise SettingsError(f"seed must lie between 0 and 2**64 - 1, got {self.seed}")


def check_batch_tokens(batch_tokens: int) -> None:
    """Refuse a size of batches that no search can use.

    Raises:
        SettingsError: when it is out of range.
    """
    if not 1 <= batch_tokens <= LARGEST_BATCH_TOKENS:
        raise SettingsError(f"batch_tokens must lie between 1 and {LARGEST_BATCH_TOKENS:,}, got {batch_tokens}")


def _length(factor: float, source_length: int, offset: int) -> int:
    return min(math.floor(factor * source_length) + offset, LONGEST_OUTPUT)


def length_penalty(length: int, alpha: float) -> float:
    """lp(Y) = ((5 + |Y|) / (5 + 1)) ** alpha; |Y| counts EOS, so that lp = 1 for an empty output.

    "Google's Neural Machine Translation System" (Wu et al., 2016), equation 14.
    """
    return float(((5 + length) / 6) ** alpha)


DEFAULT_SEARCH = SearchConfig()
