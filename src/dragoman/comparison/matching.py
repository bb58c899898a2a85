"""Matching the widths of models so that they have about the same number of parameters."""

import math
from dataclasses import replace

import torch

from dragoman.models.config import ModelConfig
from dragoman.models.registry import build_any

# Widths are multiples of this; other widths are slow.
STEP = 8
# Largest width.
WIDEST = 8192


def count_parameters(config: ModelConfig) -> int:
    """Return the number of parameters of a model without allocating them; tied weights are counted once."""
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in build_any(config).parameters())


def with_width(config: ModelConfig, d_model: int) -> ModelConfig:
    """Return the configuration at another width; the width of feed-forward networks is scaled by the same factor."""
    d_ff = getattr(config, "d_ff", None)
    if d_ff is not None:
        return replace(config, d_model=d_model, d_ff=round(d_model * d_ff / config.d_model))
    return replace(config, d_model=d_model)


def match_width(config: ModelConfig, parameters: int) -> ModelConfig:
    """Return the configuration at the width at which the number of parameters is closest to `parameters`.

    The width is a multiple of `STEP` and of the number of heads.
    """
    step = math.lcm(STEP, getattr(config, "heads", 1))
    low, high = 1, WIDEST // step
    # The number of parameters increases with the width, so bisection finds the two closest widths.
    while high - low > 1:
        middle = (low + high) // 2
        if count_parameters(with_width(config, middle * step)) <= parameters:
            low = middle
        else:
            high = middle
    return min(
        (with_width(config, width * step) for width in (low, high)),
        key=lambda candidate: abs(count_parameters(candidate) - parameters),
    )
