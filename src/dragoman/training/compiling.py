"""Compilation of a model's layers with torch.compile."""

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from torch import nn


@runtime_checkable
class Compilable(Protocol):
    """A model with layers that compilation makes faster."""

    def layers_to_compile(self) -> Iterable[nn.Module]:
        """Return the layers."""


def compile_layers(model: Compilable) -> None:
    """Compile the layers of a model in place, each for all sequence lengths.

    Layers of one kind are identical but for their weights, so one compilation serves all of them. The decoder's `step`,
    which only search uses, is not compiled.
    """
    for layer in model.layers_to_compile():
        layer.compile(dynamic=True)
