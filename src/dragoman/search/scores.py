"""Scores of given translations: their probability under a model."""

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

# Target positions whose logits are in memory at the same time: 128 MiB for 32,000 subwords.
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
    """Score B pairs by teacher forcing.

    For the output of a search with the same models and alpha, the log-probability and the score equal those of the
    search, up to rounding.

    Args:
        models: one model, or several models that form an ensemble.
        source: source tokens.
        mask: True at real source tokens.
        target_in: target tokens after BOS, the input of the decoder.
        target_out: target tokens followed by EOS, the expected output.
        target_mask: True at real target tokens.
        alpha: exponent of the length penalty.

    Raises:
        FloatingPointError: if a log-probability is not finite.
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
    """Return log p(target_out[b, t] | target_in[b, :t + 1], source[b]) at the P real positions, in order."""
    # [B, T] -> [B, T, D] -> [P, D]
    states = model.decode_states(target_in, model.encode(source, mask), target_mask)[target_mask]
    # [B, T] -> [P]
    targets = target_out[target_mask]
    # In blocks of positions, since [P, V] may not fit into memory.
    return torch.cat(
        [
            # [p, D] -> [p, V] -> [p, 1] -> [p]
            model.project(block).float().log_softmax(-1).gather(-1, target[:, None]).squeeze(-1)
            for block, target in zip(states.split(POSITIONS_AT_ONCE), targets.split(POSITIONS_AT_ONCE), strict=True)
        ]
    )
