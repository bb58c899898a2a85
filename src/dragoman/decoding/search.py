"""What every search shares: its settings, the limits it keeps, and the hypotheses it returns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from dragoman.data.subwords import BOS, EOS, PAD, UNK
from dragoman.errors import UserError

NEVER_GENERATED = [PAD, UNK, BOS]  # bytes spell what the vocabulary lacks, so UNK has no use either


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


def length_penalty(length: int, alpha: float) -> float:
    """lp(Y) = ((5 + |Y|) / (5 + 1)) ** alpha; |Y| counts EOS, so that lp = 1 for an empty output.

    "Google's Neural Machine Translation System" (Wu et al., 2016), equation 14.
    """
    return float(((5 + length) / 6) ** alpha)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What each row may say at each position: lengths, and a prefix that it must begin with."""

    minimum: Int[Tensor, " B"]
    maximum: Int[Tensor, " B"]  # never below the length of the prefix
    prefix: Int[Tensor, "B P"]  # PAD where nothing is forced

    @classmethod
    def build(
        cls,
        source_lengths: Sequence[int],
        config: SearchConfig,
        prefixes: Sequence[Sequence[int]] | None,
        device: torch.device,
    ) -> Limits:
        """Limits of rows with these source lengths (without EOS) and prefixes (may be empty)."""
        if prefixes is None:
            prefixes = [()] * len(source_lengths)
        assert len(prefixes) == len(source_lengths)
        assert not any(token in [*NEVER_GENERATED, EOS] for row in prefixes for token in row)
        # B sequences of P_b -> [B, P]
        prefix = pad_sequence(
            [torch.tensor(row, dtype=torch.int64) for row in prefixes],
            batch_first=True,
            padding_value=PAD,
        )
        maximum = [
            max(config.maximum_length(length), len(row)) for length, row in zip(source_lengths, prefixes, strict=True)
        ]
        return cls(
            minimum=torch.tensor([config.minimum_length(n) for n in source_lengths], device=device),
            maximum=torch.tensor(maximum, device=device),
            prefix=prefix.to(device),
        )

    def select(self, rows: Int[Tensor, " N"]) -> Limits:
        """The limits of these rows, which may repeat."""
        return Limits(minimum=self.minimum[rows], maximum=self.maximum[rows], prefix=self.prefix[rows])

    def apply(self, log_probabilities: Float[Tensor, "B K V"], position: int) -> Float[Tensor, "B K V"]:
        """-inf for every token that K hypotheses of each row may not say at `position` (from 0).

        What remains is not renormalised: sums of it are still the model's own log-probabilities.
        """
        allowed = log_probabilities.clone()
        allowed[..., NEVER_GENERATED] = -math.inf
        # [B] -> [B, 1]: one limit for the K hypotheses of a row
        too_short = (position < self.minimum)[:, None]
        allowed[..., EOS] = allowed[..., EOS].masked_fill(too_short, -math.inf)
        every_token = torch.arange(allowed.size(-1), device=allowed.device)
        if position < self.prefix.size(1):
            # [B] -> [B, 1] against [V] -> [B, V]
            forced = self.prefix[:, position, None]
            allowed.masked_fill_(((forced != PAD) & (every_token != forced))[:, None, :], -math.inf)
        at_limit = position >= self.maximum
        if at_limit.any():
            # [B] -> [B, 1, 1] against [V] -> [B, 1, V]
            allowed.masked_fill_(at_limit[:, None, None] & (every_token != EOS), -math.inf)
        return allowed
