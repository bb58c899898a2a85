"""Settings of the search and their defaults. This module does not import torch."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dragoman.errors import SettingsError

# Size of a batch: the number of rows, times the length of the longest row, times the hypotheses per row.
DEFAULT_BATCH_TOKENS = 4096
# Limits for all engines. The time per position grows faster than the beam: a line takes seconds with 200 hypotheses and
# minutes with 1,000, while translations do not improve beyond a few dozen.
MAX_BEAM = 200
MAX_SAMPLES = 1024
# In tokens. Models are trained on outputs of at most a few hundred tokens.
MAX_OUTPUT_LENGTH = 4096
# With this exponent, the penalty of the longest output is still finite in float32.
MAX_LENGTH_PENALTY = 10.0
# A logit divided by this temperature is still finite.
MIN_TEMPERATURE = 1e-6
MAX_BATCH_TOKENS = 2**30


@dataclass(frozen=True, kw_only=True)
class SearchConfig:
    """Settings of beam search. Lengths are numbers of target tokens without EOS.

    Example:
        >>> search = SearchConfig(beam=8, n_best=3)
        >>> search.maximum_length(source_length=10)
        60

    Raises:
        SettingsError: for values outside their range.
    """

    beam: int = 4
    """Number of hypotheses kept at each position, at most 200; 1 is greedy search."""
    length_penalty: float = 1.0
    """Exponent alpha of the length penalty, at most 10; 0 ranks outputs by their log-probability. The paper uses 0.6.
    Outputs of models that were trained for only a few minutes are too short with values below 1."""
    n_best: int = 1
    """Number of hypotheses returned for each source, at most `beam`."""
    max_length_factor: float = 1.0
    """The maximum length of an output is floor(factor * source length) + offset, at most 4,096 tokens."""
    max_length_offset: int = 50
    """Offset of the maximum length, see `max_length_factor`. The default is from "Attention Is All You Need" (section
    6.1)."""
    min_length_factor: float = 0.0
    """The minimum length of an output is floor(factor * source length) + offset."""
    min_length_offset: int = 1
    """Offset of the minimum length, see `min_length_factor`. With the default of 1, no output is empty."""

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
        if not 0 <= self.min_length_factor <= self.max_length_factor <= MAX_OUTPUT_LENGTH:
            raise SettingsError(
                f"length factors must satisfy 0 <= min_length_factor <= max_length_factor <= {MAX_OUTPUT_LENGTH:,} "
                f"(the longest output), got {self.min_length_factor} and {self.max_length_factor}"
            )
        if not (0 <= self.min_length_offset <= self.max_length_offset <= MAX_OUTPUT_LENGTH and self.max_length_offset):
            raise SettingsError(
                "length offsets must satisfy 0 <= min_length_offset <= max_length_offset and "
                f"1 <= max_length_offset <= {MAX_OUTPUT_LENGTH:,} (the longest output), "
                f"got {self.min_length_offset} and {self.max_length_offset}"
            )

    def maximum_length(self, source_length: int) -> int:
        """Return the maximum length of the output for a source of `source_length` tokens, both without EOS."""
        return _length(self.max_length_factor, source_length, self.max_length_offset)

    def minimum_length(self, source_length: int) -> int:
        """Return the minimum length of the output for a source of `source_length` tokens, both without EOS."""
        return _length(self.min_length_factor, source_length, self.min_length_offset)


@dataclass(frozen=True, kw_only=True)
class SamplingConfig:
    """Settings of sampling. The same seed and the same text give the same samples in every batch.

    Example:
        >>> sampling = SamplingConfig(temperature=0.7, top_p=0.95, samples=5, seed=1)
        >>> sampling.top_k is None
        True

    Raises:
        SettingsError: for values outside their range.
    """

    temperature: float = 1.0
    """Divisor of the logits; below 1 the output is more predictable, above 1 more varied."""
    top_k: int | None = None
    """Sample from the k most probable tokens only; None: from all tokens."""
    top_p: float = 1.0
    """Sample from the smallest set of most probable tokens whose probabilities (after temperature and top_k) sum to at
    least this value; 1: from all tokens (Holtzman et al., 2020)."""
    samples: int = 1
    """Number of samples for each source; sample i does not depend on this number."""
    seed: int = 0
    """Seed of the random numbers, 0 to 2**64 - 1."""

    def __post_init__(self) -> None:
        if not MIN_TEMPERATURE <= self.temperature < math.inf:
            raise SettingsError(
                f"temperature must be a number of at least {MIN_TEMPERATURE}, got {self.temperature}; "
                "to choose the most probable token at each position, use a beam of 1 without sampling"
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
    """Check the size of batches.

    Raises:
        SettingsError: if it is out of range.
    """
    if not 1 <= batch_tokens <= MAX_BATCH_TOKENS:
        raise SettingsError(f"batch_tokens must lie between 1 and {MAX_BATCH_TOKENS:,}, got {batch_tokens}")


def _length(factor: float, source_length: int, offset: int) -> int:
    return min(math.floor(factor * source_length) + offset, MAX_OUTPUT_LENGTH)


def length_penalty(length: int, alpha: float) -> float:
    """Return the length penalty lp(Y) = ((5 + |Y|) / (5 + 1)) ** alpha, by which log-probabilities are divided.

    Source: "Google's Neural Machine Translation System" (Wu et al., 2016), equation 14.

    Args:
        length: length |Y| of the output including EOS; the penalty of an empty output is 1.
        alpha: exponent; 0 gives no penalty.
    """
    return float(((5 + length) / 6) ** alpha)


DEFAULT_SEARCH = SearchConfig()
