"""What an optimizer is made of: torch's optimizers, each for its own parameters."""

from dataclasses import dataclass
from typing import Protocol

import torch
from jaxtyping import Bool
from torch import Tensor, nn


class OptimizerSettings(Protocol):
    """What `TrainingConfig` says about optimizers."""

    @property
    def matrix_rate(self) -> float:
        """Return the learning rate of matrices as a multiple of the schedule's."""

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
    """One of torch's optimizers, and how the loop treats it.

    name        in a checkpoint
    optimizer   holds its parameters
    rate        its learning rate as a multiple of the schedule's
    fused       it can be told on the device that an update is not finite; otherwise the host waits for the answer
    """

    name: str
    optimizer: torch.optim.Optimizer
    rate: float = 1.0
    fused: bool = False

    def step(self, learning_rate: float, finite: Bool[Tensor, ""]) -> None:
        """Update all parameters that have a gradient, if `finite`."""
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate * self.rate
        if self.fused:
            # How torch's gradient scaler tells a fused optimizer, on the device, to leave everything as it is.
            self.optimizer.found_inf = (~finite).float()  # type: ignore[attr-defined]
            self.optimizer.step()
        elif finite:
            self.optimizer.step()


@dataclass(frozen=True)
class Optimizers:
    """The parts of an optimizer, which share the parameters among them."""

    parts: tuple[Part, ...]

    def named(self) -> dict[str, torch.optim.Optimizer]:
        """Return each by its name in a checkpoint."""
        return {part.name: part.optimizer for part in self.parts}

    def step(self, learning_rate: float, finite: Bool[Tensor, ""]) -> None:
        """Update all parameters that have a gradient, if `finite`."""
        for part in self.parts:
            part.step(learning_rate, finite)


def hidden_matrices(model: nn.Module) -> list[nn.Parameter]:
    """Return the matrices that turn hidden vectors into hidden vectors.

    Neither embeddings nor the projection onto the vocabulary, which every model with a vocabulary calls `output`.
    """
    tables = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    output = getattr(model, "output", None)
    if isinstance(output, nn.Linear):
        tables.add(id(output.weight))
    return [parameter for parameter in model.parameters() if parameter.ndim == 2 and id(parameter) not in tables]
