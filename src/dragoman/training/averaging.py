"""Exponential moving average of the weights."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from dragoman.models.storage import weights_of


class MovingAverage:
    """Exponential moving average θ̄ ← d·θ̄ + (1 - d)·θ, with d = min(decay, (1 + step) / (10 + step)).

    Because d grows with the step, the random initial weights are forgotten quickly (Polyak averaging as in
    tensorflow.train.ExponentialMovingAverage).

    Args:
        model: the model whose weights are averaged.
        decay: the largest value of d.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.weights = {name: tensor.clone() for name, tensor in weights_of(model).items()}

    @torch.no_grad()
    def update(self, model: nn.Module, step: int) -> None:
        """Move the average towards the model's weights.

        Tensors of whole numbers, such as counters, are copied.

        Args:
            model: the model after an update.
            step: number of the update, counted from 1.
        """
        current = weights_of(model)
        new_share = 1 - min(self.decay, (1 + step) / (10 + step))
        averaged = [name for name, tensor in current.items() if tensor.is_floating_point()]
        torch._foreach_lerp_([self.weights[n] for n in averaged], [current[n] for n in averaged], new_share)
        for name in current.keys() - set(averaged):
            self.weights[name].copy_(current[name])

    @contextmanager
    def swapped_in(self, model: nn.Module) -> Iterator[None]:
        """Give the model the averaged weights inside the block, and its own weights afterwards."""
        own = {name: tensor.clone() for name, tensor in weights_of(model).items()}
        _copy(self.weights, model)
        try:
            yield
        finally:
            _copy(own, model)


@torch.no_grad()
def _copy(weights: dict[str, Tensor], model: nn.Module) -> None:
    for name, tensor in weights_of(model).items():
        tensor.copy_(weights[name])
