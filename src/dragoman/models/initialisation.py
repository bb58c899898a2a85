"""Initialisation of weights, shared by the architectures."""

from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

# Class of a module -> function that initialises the weights of such a module.
Rules = Mapping[type[nn.Module], Callable[[Any], None]]


def initialise(model: Any, rules: Rules, output_std: float) -> None:
    """Initialise the weights of an `EncoderDecoder`, in the order of `model.modules()`.

    Args:
        model: the model.
        rules: functions by the class of module that they initialise; other modules are not changed.
        output_std: standard deviation of the output projection, which is normal. If it is tied to an embedding, it is
            initialised as an embedding instead.
    """
    for module in model.modules():
        if module is not model.output:
            for module_class, initialise_module in rules.items():
                if isinstance(module, module_class):
                    initialise_module(module)
    if model.output.weight is not model.target_embedding.tokens.weight:
        nn.init.normal_(model.output.weight, std=output_std)


def xavier(linear: nn.Linear) -> None:
    """Set weights uniform with variance 2 / (fan-in + fan-out) (Glorot and Bengio, 2010, equation 16), biases zero."""
    nn.init.xavier_uniform_(linear.weight)
    if linear.bias is not None:
        nn.init.zeros_(linear.bias)


def unit_after_scaling(embedding: nn.Embedding) -> None:
    """Set embeddings normal with standard deviation d_model^-0.5; multiplied by √d_model they have variance 1."""
    nn.init.normal_(embedding.weight, std=embedding.embedding_dim**-0.5)


def normal(linear: nn.Linear, std: float) -> None:
    """Set the weights normal with standard deviation `std`, and the biases zero."""
    nn.init.normal_(linear.weight, std=std)
    nn.init.zeros_(linear.bias)
