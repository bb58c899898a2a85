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
# Limits of the repetition penalty and of the number of tokens that a language model writes.
MAX_REPETITION_PENALTY = 100.0
MAX_CONTINUATION = 2**24


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
    min_p: float = 0.0
    """Sample from the tokens whose probability (after temperature) is at least this fraction of the highest one; 0:
    from all tokens (Nguyen et al., 2024)."""
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
        if not 0 <= self.min_p <= 1:
            raise SettingsError(f"min_p must lie between 0 and 1, got {self.min_p}")
        if not 1 <= self.samples <= MAX_SAMPLES:
            raise SettingsError(f"samples must lie between 1 and {MAX_SAMPLES:,}, got {self.samples}")
        if not 0 <= self.seed < 2**64:
            raise SettingsError(f"seed must lie between 0 and 2**64 - 1, got {self.seed}")


@dataclass(frozen=True, kw_only=True)
class ContinuationConfig:
    """Settings with which a language model continues a text.

    Example:
        >>> config = ContinuationConfig(max_tokens=500, sampling=SamplingConfig(temperature=0.8, top_k=50))
        >>> config.outputs
        1

    Raises:
        SettingsError: for values outside their range.
    """

    max_tokens: int = 256
    """Largest number of tokens to write, not counting the end of the text."""
    sampling: SamplingConfig = SamplingConfig()
    """How tokens are drawn; not used with a beam."""
    beam: int | None = None
    """None: tokens are drawn at random. 1: the most probable token at each position. Above 1, at most 200: beam
    search, for at most 4,096 tokens."""
    n_best: int = 1
    """Number of outputs of beam search, at most `beam`."""
    length_penalty: float = 1.0
    """Exponent alpha of the length penalty of beam search, see `SearchConfig`."""
    repetition_penalty: float = 1.0
    """Penalty of the tokens that occur in the text so far, including the prompt; 1: none. Values of about 1.2 avoid
    repetition (Keskar et al., 2019). Not available with beam search."""

    def __post_init__(self) -> None:
        if not 1 <= self.max_tokens <= MAX_CONTINUATION:
            raise SettingsError(f"max_tokens must lie between 1 and {MAX_CONTINUATION:,}, got {self.max_tokens:,}")
        if not 1 <= self.repetition_penalty <= MAX_REPETITION_PENALTY:
            raise SettingsError(
                f"repetition_penalty must lie between 1 (no penalty) and {MAX_REPETITION_PENALTY:g}, "
                f"got {self.repetition_penalty}"
            )
        if self.beam is None:
            if self.n_best != 1:
                raise SettingsError("n_best is the number of outputs of beam search: set a beam, or sampling.samples")
            return
        if self.beam > 1 and self.repetition_penalty != 1:
            raise SettingsError(
                "repetition_penalty is not available with beam search: use a beam of 1, which takes the most probable "
                "token, or sampling"
            )
        if self.beam > 1 and self.max_tokens > MAX_OUTPUT_LENGTH:
            raise SettingsError(
                f"beam search writes at most {MAX_OUTPUT_LENGTH:,} tokens, but max_tokens is {self.max_tokens:,}"
            )
        # The other checks are those of a search.
        self.search()

    @property
    def outputs(self) -> int:
        """The number of continuations: samples, or hypotheses of beam search."""
        return self.sampling.samples if self.beam is None else self.n_best

    def search(self) -> SearchConfig:
        """Return the settings of beam search whose outputs have at most `max_tokens` tokens, and may be empty."""
        assert self.beam is not None
        return SearchConfig(
            beam=self.beam,
            n_best=self.n_best,
            length_penalty=self.length_penalty,
            max_length_factor=0.0,
            max_length_offset=min(self.max_tokens, MAX_OUTPUT_LENGTH),
            min_length_offset=0,
        )


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
