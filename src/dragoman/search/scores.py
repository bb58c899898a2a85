"""The probability that models give to a known translation."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from dragoman.models.inference import inference
from dragoman.models.seq2seq import Seq2Seq
from dragoman.search.config import length_penalty
from dragoman.search.results import Score, require_finite
from dragoman.search.stepper import log_mean_exp

# Target positions projected onto the vocabulary at once: 128 MiB of logits for 32,000 subwords.
POSITIONS_AT_ONCE = 1024


def score(
    models: Sequence[Seq2Seq],
    source: Int[Tensor, "B S"],
    mask: Bool[Tensor, "B S"],
    target_in: Int[Tensor, "B T"],
    target_out: Int[Tensor, "B T"],
    target_mask: Bool[Tensor, "B T"],
    alpha: float,
) -> list[Score]:
    """Score B pairs by teacher forcing; several models count as their ensemble.

    Masks are True where a token is real. For the output of a search, with the models and the alpha
    of that search, log_probability and score equal the search's (up to rounding).

    Raises FloatingPointError when a log-probability is not finite.
    """
    with inference(models):
        # n times [P] -> [P]: the P real positions of the batch
        by_position = log_mean_exp(
            [_target_log_probabilities(model, source, mask, target_in, target_out, target_mask) for model in models]
        )
        # [P] -> [B, T] -> [B]
        total = by_position.new_zeros(target_mask.shape).masked_scatter(target_mask, by_position)
        total, length = total.sum(-1), target_mask.sum(-1)
    require_finite(float(total.sum()))
    return [
        Score(log_probability=p, tokens=n, score=p / length_penalty(n, alpha))
        for p, n in zip(total.tolist(), length.tolist(), strict=True)
    ]


def _target_log_probabilities(
    model: Seq2Seq,
    source: Int[Tensor, "B S"],
    mask: Bool[Tensor, "B S"],
    target_in: Int[Tensor, "B T"],
    target_out: Int[Tensor, "B T"],
    target_mask: Bool[Tensor, "B T"],
) -> Float[Tensor, " P"]:
    """log p(target_out[b, t] | target_in[b, :t + 1], source[b]) at the P real positions, in order."""
    # [B, T] -> [B, T, D] -> [P, D]
    states = model.decode_states(target_in, model.encode(source, mask), target_mask)[target_mask]
    # [B, T] -> [P]
    targets = target_out[target_mask]
    # A few positions at a time, since [P, V] may be larger than memory.
    return torch.cat(
        [
            # [p, D] -> [p, V] -> [p, 1] -> [p]
            model.project(some).float().log_softmax(-1).gather(-1, wanted[:, None]).squeeze(-1)
            for some, wanted in zip(states.split(POSITIONS_AT_ONCE), targets.split(POSITIONS_AT_ONCE), strict=True)
        ]
    )
