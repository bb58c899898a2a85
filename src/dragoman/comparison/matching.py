"""Models of different make with about the same number of parameters."""

import math
from dataclasses import replace

import torch

from dragoman.models.config import ModelConfig
from dragoman.models.registry import build_model

# Widths are multiples of this: odd ones are slow.
STEP = 8
WIDEST = 8192


def count_parameters(config: ModelConfig) -> int:
    """Weights of the model, each counted once, without any of them being made."""
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in build_model(config).parameters())


def with_width(config: ModelConfig, d_model: int) -> ModelConfig:
    """The same model at another width; a feed-forward network keeps its ratio to it."""
    d_ff = getattr(config, "d_ff", None)
    if d_ff is not None:
        return replace(config, d_model=d_model, d_ff=round(d_model * d_ff / config.d_model))
    return replace(config, d_model=d_model)


def matched(config: ModelConfig, parameters: int) -> ModelConfig:
    """The model at the width at which its number of parameters is nearest to `parameters`.

    Heads divide the width; a recurrent encoder halves it.
    """
    step = math.lcm(STEP, getattr(config, "heads", 1))
    low, high = 1, WIDEST // step
    # More width, more parameters: halve the range until two neighbours are left.
    while high - low > 1:
        middle = (low + high) // 2
        if count_parameters(with_width(config, middle * step)) <= parameters:
            low = middle
        else:
            high = middle
    return min(
        (with_width(config, width * step) for width in (low, high)),
        key=lambda each: abs(count_parameters(each) - parameters),
    )
