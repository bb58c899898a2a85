"""What each row of a search may say: lengths, and a prefix that it must begin with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from dragoman.errors import ModelError
from dragoman.search.config import SearchConfig
from dragoman.search.results import EMPTY_HYPOTHESES
from dragoman.text.subwords import EOS, NEVER_GENERATED, PAD


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
        if log_probabilities.size(-1) <= len(NEVER_GENERATED) + 1:
            raise ModelError(EMPTY_HYPOTHESES)
        allowed = log_probabilities.clone()
        allowed[..., list(NEVER_GENERATED)] = -math.inf
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
