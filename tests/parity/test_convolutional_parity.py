"""The convolutional model against the equations of Gehring et al. (2017), with the same weights."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from dragoman.layers.convolution import GatedConvolution, Windows
from dragoman.models.config.convolutional import ConvolutionalConfig
from dragoman.models.convolutional import Convolutional, build_convolutional
from dragoman.packing import Padded

Array = NDArray[np.float64]
D, V = 10, 15
WIDTHS = pytest.mark.parametrize("width", [1, 3, 5])
# The target is packed into rows if its mask is passed, and padded otherwise.
PACKED = pytest.mark.parametrize("packed", [False, True], ids=["padded", "packed"])


def build(width: int, tied: Any = "none") -> Convolutional:
    """Return a model in float64, with random noise added to all weights and biases."""
    torch.manual_seed(0)
    model = build_convolutional(
        ConvolutionalConfig(
            source_vocabulary=V,
            target_vocabulary=V,
            encoder_layers=3,
            decoder_layers=2,
            d_model=D,
            kernel_width=width,
            max_positions=12,
            dropout=0.0,
            tied_embeddings=tied,
        )
    ).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


def convolved(weights: Mapping[str, Tensor], name: str, h: Tensor, width: int, padding: int) -> Tensor:
    """Apply torch's convolution and gated linear unit to one sentence [T, D]."""
    # [2D, kD] -> [2D, k, D] -> [2D, D, k]
    kernel = weights[f"{name}.kernel.weight"].unflatten(1, (width, -1)).transpose(1, 2)
    # [T, D] -> [D, T] -> [2D, T'] -> [D, T'] -> [T', D]
    return F.glu(F.conv1d(h.t(), kernel, weights[f"{name}.kernel.bias"], padding=padding), dim=0).t()


def expected_states(model: Convolutional, source: Tensor, target: Tensor, width: int) -> Tensor:
    """Compute section 3 of the paper for one source sentence [S] and its target [T]."""
    weights = dict(model.named_parameters(remove_duplicate=False))
    m, T = len(source), len(target)
    e = weights["source_embedding.tokens.weight"][source] + weights["source_embedding.positions.embedding.weight"][:m]
    g = weights["target_embedding.tokens.weight"][target] + weights["target_embedding.positions.embedding.weight"][:T]
    z = e
    for layer in range(3):
        z = (convolved(weights, f"encoder.blocks.{layer}", z, width, width // 2) + z) * math.sqrt(0.5)
    h = g
    for layer in range(2):
        name = f"decoder.blocks.{layer}"
        # Zeros on both sides; the end is cut off.
        h = (convolved(weights, f"{name}.convolution", h, width, width - 1)[:T] + h) * math.sqrt(0.5)
        d = h @ weights[f"{name}.attention.query.weight"].t() + weights[f"{name}.attention.query.bias"] + g
        # [T, D] x [D, S] -> [T, S]
        a = (d @ z.t()).exp()
        a = a / a.sum(dim=1, keepdim=True)
        # [T, S] x [S, D] -> [T, D]
        h = (h + a @ (z + e) * (m * math.sqrt(1 / m))) * math.sqrt(0.5)
    return h


@WIDTHS
@PACKED
def test_outputs_and_gradients(width: int, packed: bool) -> None:
    model = build(width).train()
    source_lengths, target_lengths = (7, 3, 1, 12), (5, 9, 1, 2)
    source, target = torch.randint(V, (4, 12)), torch.randint(V, (4, 9))
    source_mask = torch.arange(12) < torch.tensor(source_lengths).unsqueeze(1)
    target_mask = torch.arange(9) < torch.tensor(target_lengths).unsqueeze(1)

    memory = model.encode(source, source_mask)
    actual = model.decode_states(target, memory, target_mask if packed else None)[target_mask]
    weighting = torch.randn_like(actual)
    names, parameters = zip(*model.named_parameters(), strict=True)
    # The states do not depend on the output projection.
    gradients = torch.autograd.grad((actual * weighting).sum(), parameters, allow_unused=True)

    sentences = zip(source, source_lengths, target, target_lengths, strict=True)
    expected = torch.cat([expected_states(model, s[:m], t[:n], width) for s, m, t, n in sentences])
    torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-9)
    other_gradients = torch.autograd.grad((expected * weighting).sum(), parameters, allow_unused=True)
    for name, one, other in zip(names, gradients, other_gradients, strict=True):
        assert (one is None) == (other is None) == (name == "output.weight"), name
        if one is not None:
            torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-8, msg=name)


@WIDTHS
@pytest.mark.parametrize("tied", ["three-way", "two-way", "none"])
def test_step_by_step(width: int, tied: str) -> None:
    model = build(width, tied).eval()
    source, target = torch.randint(V, (1, 8)), torch.randint(V, (1, 9))
    with torch.no_grad():
        expected = expected_states(model, source[0], target[0], width) @ model.output.weight.t()
        state = model.start(model.encode(source, torch.ones_like(source, dtype=torch.bool)))
        for t in range(9):
            logits, state = model.step(target[:, t], state)
            torch.testing.assert_close(logits[0], expected[t], rtol=1e-9, atol=1e-9)


def block_in_numpy(weight: Array, bias: Array, h: Array, width: int, before: int) -> Array:
    """Compute the block of section 3.2, index by index."""
    T, d = h.shape
    result = np.empty_like(h)
    for i in range(T):
        for f in range(d):
            a, gate = bias[f], bias[d + f]
            for k in range(width):
                if 0 <= i - before + k < T:
                    for j in range(d):
                        a += weight[f, k * d + j] * h[i - before + k, j]
                        gate += weight[d + f, k * d + j] * h[i - before + k, j]
            result[i, f] = (a / (1 + np.exp(-gate)) + h[i, f]) * np.sqrt(0.5)
    return result


@WIDTHS
@pytest.mark.parametrize("causal", [False, True])
def test_a_block_follows_the_paper(width: int, causal: bool) -> None:
    torch.manual_seed(1)
    block = GatedConvolution(4, width, dropout=0.0).double()
    h = torch.randn(1, 6, 4, dtype=torch.float64)
    windows = Windows(Padded(torch.ones(1, 6, dtype=torch.bool)), width, causal=causal)
    actual = block(h, windows)[0].detach().numpy()
    weight, bias = block.kernel.weight.detach().numpy(), block.kernel.bias.detach().numpy()
    before = width - 1 if causal else width // 2
    expected = block_in_numpy(weight, bias, h[0].numpy(), width, before)
    np.testing.assert_allclose(actual, expected, rtol=1e-10, atol=1e-12)
