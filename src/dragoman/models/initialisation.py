"""Initial weights: the parts of it that architectures share, and the order in which they are drawn."""

from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

# What draws the weights of a module of some class.
Rules = Mapping[type[nn.Module], Callable[[Any], None]]


def initialise(model: Any, rules: Rules, output_std: float) -> None:
    """Draw the weights of an `EncoderDecoder`, from its first module to its last.

    Args:
        rules: a module is initialised by the rule of its class; one without a rule stays as it is.
        output_std: of the output projection, which is normal. A tied one has just been drawn as an embedding.
    """
    for module in model.modules():
        if module is not model.output:
            for kind, draw in rules.items():
                if isinstance(module, kind):
                    draw(module)
    if model.output.weight is not model.target_embedding.tokens.weight:
        nn.init.normal_(model.output.weight, std=output_std)


def xavier(linear: nn.Linear) -> None:
    """Draw a matrix uniformly with variance 2 / (fan-in + fan-out) (Glorot and Bengio, 2010); biases are zero."""
    nn.init.xavier_uniform_(linear.weight)
    if linear.bias is not None:
        nn.init.zeros_(linear.bias)


def unit_after_scaling(embedding: nn.Embedding) -> None:
    """Draw vectors with standard deviation d_model^-0.5, so that scaled by √d_model they have variance 1."""
    nn.init.normal_(embedding.weight, std=embedding.embedding_dim**-0.5)


def normal(linear: nn.Linear, std: float) -> None:
    """Draw a matrix with this standard deviation; biases are zero."""
    nn.init.normal_(linear.weight, std=std)
    nn.init.zeros_(linear.bias)
