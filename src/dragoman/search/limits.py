"""Constraints on the output of each row of a search: minimum and maximum length, and a prefix."""

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
    """Constraints on the outputs of B rows.

    Attributes:
        minimum: minimum length.
        maximum: maximum length, at least the length of the prefix.
        prefix: target ids with which the output must begin, followed by PAD.
    """

    minimum: Int[Tensor, " B"]
    maximum: Int[Tensor, " B"]
    prefix: Int[Tensor, "B P"]

    @classmethod
    def build(
        cls,
        source_lengths: Sequence[int],
        config: SearchConfig,
        prefixes: Sequence[Sequence[int]] | None,
        device: torch.device,
    ) -> Limits:
        """Return the constraints for rows with these source lengths (without EOS) and prefixes (which may be empty)."""
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
        """Return the constraints of these rows, which may contain duplicates."""
        return Limits(minimum=self.minimum[rows], maximum=self.maximum[rows], prefix=self.prefix[rows])

    def apply(self, log_probabilities: Float[Tensor, "B K V"], position: int) -> Float[Tensor, "B K V"]:
        """Return the log-probabilities with -inf for every token that is not allowed at this position.

        The other log-probabilities are not renormalised, so that they are still those of the model.

        Args:
            log_probabilities: for the K hypotheses of each row.
            position: index of the next token, from 0.

        Raises:
            ModelError: if the vocabulary contains only special tokens.
        """
        if log_probabilities.size(-1) <= len(NEVER_GENERATED) + 1:
            raise ModelError(EMPTY_HYPOTHESES)
        allowed = log_probabilities.clone()
        allowed[..., list(NEVER_GENERATED)] = -math.inf
        # [B] -> [B, 1]: the K hypotheses of a row share one limit
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
