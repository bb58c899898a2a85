"""Adam (Kingma and Ba, 2015) with decoupled weight decay (Loshchilov and Hutter, 2019)."""

from collections.abc import Collection

import torch
from torch import nn

from dragoman.device import Precision
from dragoman.training.optimizers.parts import Optimizers, OptimizerSettings, Part


def build(model: nn.Module, settings: OptimizerSettings, precision: Precision) -> Optimizers:  # noqa: ARG001
    """Return Adam for all parameters."""
    return Optimizers((adam_without(model, (), settings),))


def adam_without(
    model: nn.Module,
    excluded: Collection[nn.Parameter],
    settings: OptimizerSettings,
    name: str = "optimizer",
    rate: float = 1.0,
) -> Part:
    """Return Adam for all parameters except `excluded` and those of frozen parts, which have no gradient.

    Args:
        model: the model.
        excluded: parameters that other parts update.
        settings: settings of Adam.
        name: see `Part.name`.
        rate: see `Part.rate`.
    """
    excluded_ids = set(map(id, excluded))
    adam = torch.optim.AdamW(
        [
            parameter
            for parameter in model.parameters()
            if parameter.requires_grad and id(parameter) not in excluded_ids
        ],
        lr=0.0,
        betas=settings.adam_betas,
        eps=settings.adam_epsilon,
        weight_decay=settings.weight_decay,
        fused=True,
    )
    return Part(name, adam, rate, fused=True)
