"""Parts of an optimizer: torch optimizers, each for some of the parameters."""

from dataclasses import dataclass
from typing import Protocol

import torch
from jaxtyping import Bool
from torch import Tensor, nn


class OptimizerSettings(Protocol):
    """The settings of `TrainingConfig` for optimizers."""

    @property
    def matrix_rate(self) -> float:
        """Return the learning rate of matrices as a multiple of the scheduled learning rate."""

    @property
    def discriminator_rate(self) -> float:
        """Return the learning rate of a discriminator as a multiple of the scheduled learning rate."""

    @property
    def adam_betas(self) -> tuple[float, float]:
        """Return Adam's β₁ and β₂."""

    @property
    def adam_epsilon(self) -> float:
        """Return Adam's ε."""

    @property
    def weight_decay(self) -> float:
        """Return the decoupled weight decay."""


@dataclass(frozen=True)
class Part:
    """A torch optimizer for some of the parameters.

    Attributes:
        name: name of its state in a checkpoint.
        optimizer: the optimizer, which refers to its parameters.
        rate: its learning rate as a multiple of the scheduled learning rate.
        fused: True for a fused optimizer, which skips an update that is not finite on the device. Otherwise the host
            has to wait until it can read whether the update is finite.
    """

    name: str
    optimizer: torch.optim.Optimizer
    rate: float = 1.0
    fused: bool = False

    def step(self, learning_rate: float, finite: Bool[Tensor, ""]) -> None:
        """Update all parameters that have a gradient if `finite`, a boolean scalar on the device, is true."""
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate * self.rate
        if self.fused:
            # torch's gradient scaler also sets this attribute to make a fused optimizer skip an update.
            self.optimizer.found_inf = (~finite).float()  # type: ignore[attr-defined]
            self.optimizer.step()
        elif finite:
            self.optimizer.step()


@dataclass(frozen=True)
class Optimizers:
    """An optimizer that consists of several parts, each for some of the parameters."""

    parts: tuple[Part, ...]

    def named(self) -> dict[str, torch.optim.Optimizer]:
        """Return the torch optimizers by their names in a checkpoint."""
        return {part.name: part.optimizer for part in self.parts}

    def step(self, learning_rate: float, finite: Bool[Tensor, ""]) -> None:
        """Update all parameters that have a gradient if `finite`, a boolean scalar on the device, is true."""
        for part in self.parts:
            part.step(learning_rate, finite)


def hidden_matrices(model: nn.Module) -> list[nn.Parameter]:
    """Return the matrices of the layers, which map hidden vectors to hidden vectors.

    Embeddings and the output projection, which is the attribute `output` of a model, are excluded, and so are the
    matrices of frozen parts.
    """
    excluded = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    output = getattr(model, "output", None)
    if isinstance(output, nn.Linear):
        excluded.add(id(output.weight))
    return [
        parameter
        for parameter in model.parameters()
        if parameter.ndim == 2 and parameter.requires_grad and id(parameter) not in excluded
    ]
