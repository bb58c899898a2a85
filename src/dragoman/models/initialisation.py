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


def recurrent_gates(layer: nn.LSTM | nn.GRU) -> None:
    """Initialise a recurrent layer so that gradients neither vanish nor explode over time at the start of training.

    The matrix of each gate that multiplies the state is orthogonal (Saxe et al. 2014). The matrix that multiplies the
    input is uniform with variance 2 / (fan-in + fan-out). Biases are zero, except those of forget gates, which are one,
    so that an LSTM initially keeps its state (Gers et al. 2000; Jozefowicz et al. 2015).
    """
    input_weight, state_weight, input_bias, state_bias = layer.all_weights[0]
    # [gates*D, I] -> gates x [D, I]
    for weight in input_weight.split(layer.hidden_size):
        nn.init.xavier_uniform_(weight)
    for weight in state_weight.split(layer.hidden_size):
        nn.init.orthogonal_(weight)
    nn.init.zeros_(input_bias)
    nn.init.zeros_(state_bias)
    if isinstance(layer, nn.LSTM):
        # torch stores the gates of an LSTM in this order: input, forget, cell, output
        nn.init.ones_(input_bias[layer.hidden_size : 2 * layer.hidden_size])


def initialise_normal(model: nn.Module, std: float) -> None:
    """Set all linear maps and embeddings normal with standard deviation `std`, and their biases zero."""
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=std)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)
