"""An exponential moving average of the weights."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from dragoman.models.storage import weights_of


class MovingAverage:
    """θ̄ ← d·θ̄ + (1 - d)·θ after every update, with d = min(decay, (1 + step) / (10 + step)).

    The growing d lets the average forget the random start quickly (Polyak averaging as in
    tensorflow.train.ExponentialMovingAverage).
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.weights = {name: tensor.clone() for name, tensor in weights_of(model).items()}

    @torch.no_grad()
    def update(self, model: nn.Module, step: int) -> None:
        """Move the average towards the model's weights; `step` counts updates from 1."""
        current = weights_of(model)
        share = 1 - min(self.decay, (1 + step) / (10 + step))
        moving = [name for name, tensor in current.items() if tensor.is_floating_point()]
        torch._foreach_lerp_([self.weights[n] for n in moving], [current[n] for n in moving], share)
        for name in current.keys() - set(moving):
            self.weights[name].copy_(current[name])

    @contextmanager
    def swapped_in(self, model: nn.Module) -> Iterator[None]:
        """Let the model have the averaged weights for a while."""
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
