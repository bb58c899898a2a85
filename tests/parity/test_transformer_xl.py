"""Transformer-XL against the equations of Dai et al. (2019) in NumPy, one pair of positions at a time."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from dragoman.attention import CAUSAL_MASK
from dragoman.layers.positions import SinusoidalDistances
from dragoman.layers.relative_attention import RelativeAttention, ScoreBiases

Array = NDArray[np.float64]

D, HEADS, K = 12, 3, 5


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def encoding(distance: int) -> Array:
    """R_{i-j} of Vaswani et al. (2017), section 3.5: sine and cosine of distance / 10000^(2i/D)."""
    angles = [distance / 10_000 ** (2 * (d // 2) / D) for d in range(D)]
    return np.array([np.cos(angle) if d % 2 else np.sin(angle) for d, angle in enumerate(angles)])


def attention_output(weights: dict[str, Array], memory: Array, segment: Array, scale: float) -> Array:
    """Compute section 3.3 of the paper for one text: [T, D].

    A_ij = E_xi^T W_q^T W_{k,E} E_xj + E_xi^T W_q^T W_{k,R} R_{i-j} + u^T W_{k,E} E_xj + v^T W_{k,R} R_{i-j}, then a
    softmax over j <= i of A_ij times the scale (1/√d_k in the paper), with i in the segment and j in
    [SG(memory) ∘ segment].
    """
    text = np.concatenate((memory, segment))
    outputs = []
    for i in range(len(memory), len(text)):
        heads = []
        for h in range(HEADS):
            rows = slice(h * K, (h + 1) * K)
            W_q, W_kE, W_kR = (weights[f"{name}.weight"][rows] for name in ("query", "key", "position"))
            W_v = np.split(weights["value.weight"], HEADS)[h]
            u, v = weights["biases.content"][h], weights["biases.position"][h]
            A = []
            for j in range(i + 1):
                content, position = W_kE @ text[j], W_kR @ encoding(i - j)
                a, b, c, d = W_q @ text[i] @ content, W_q @ text[i] @ position, u @ content, v @ position
                A.append((a + b + c + d) * scale)
            exponentials = np.exp(np.array(A) - max(A))
            heads.append(
                sum(p * (W_v @ x) for p, x in zip(exponentials / exponentials.sum(), text[: i + 1], strict=True))
            )
        outputs.append(weights["output.weight"] @ np.concatenate(heads))
    return np.array(outputs)


@pytest.mark.parametrize(("memory", "length"), [(0, 6), (7, 1), (4, 6), (3, 140)], ids=str)
@pytest.mark.parametrize(("d_v", "scale"), [(None, None), (2, 0.9)], ids=str)
def test_attention(memory: int, length: int, d_v: int | None, scale: float | None) -> None:
    """Attention uses different code for short and for long texts; the parts of the score are those of the paper."""
    torch.manual_seed(memory)
    distances, biases = SinusoidalDistances(D), ScoreBiases(HEADS, K)
    attention = RelativeAttention(D, HEADS, distances, biases, d_k=K, d_v=d_v, scale=scale).double()
    for parameter in attention.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    earlier, segment = random(2, memory, D), random(2, length, D, seed=1)
    actual = attention(segment, torch.cat((earlier, segment), dim=1), CAUSAL_MASK)
    weights = {name: parameter.detach().numpy() for name, parameter in attention.named_parameters()}
    factor = K**-0.5 if scale is None else scale
    expected = [attention_output(weights, *rows, factor) for rows in zip(earlier.numpy(), segment.numpy(), strict=True)]
    # The table of sinusoids is computed in float64 and stored in float32.
    np.testing.assert_allclose(actual.detach().numpy(), np.array(expected), rtol=1e-6, atol=1e-6)
