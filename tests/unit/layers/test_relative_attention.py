"""Attention of Transformer-XL: the encodings of distances, the shift, and the attention against its naive twin."""

import math
from unittest.mock import patch

import pytest
import torch
from torch import Tensor

from dragoman import attention as attention_module
from dragoman.attention import CAUSAL_MASK, naive_attention
from dragoman.layers.positions import SinusoidalDistances, sinusoidal_table
from dragoman.layers.relative_attention import RelativeAttention, ScoreBiases, four_terms, relative_shift

D, HEADS, K = 12, 3, 4


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def attention_of(*, d_k: int = K) -> RelativeAttention:
    """Return an attention in float64 with random weights, including u and v."""
    torch.manual_seed(d_k)
    attention = RelativeAttention(D, HEADS, SinusoidalDistances(D), ScoreBiases(HEADS, d_k), d_k=d_k).double()
    for parameter in attention.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return attention


def test_encodings_begin_with_the_largest_distance() -> None:
    """For more distances than the table has, too."""
    distances = SinusoidalDistances(D)
    for length in (1, 5, 300):
        torch.testing.assert_close(distances(length), sinusoidal_table(length, D).flip(0))
        table = sinusoidal_table(length, D, base=100.0)
        torch.testing.assert_close(SinusoidalDistances(D, base=100.0)(length), table.flip(0))
    assert not distances.state_dict()


@pytest.mark.parametrize(("queries", "keys", "distances"), [(1, 1, 1), (4, 4, 4), (3, 8, 8), (3, 8, 2), (1, 5, 6)])
def test_shift(queries: int, keys: int, distances: int) -> None:
    products = random(2, HEADS, queries, distances)
    shifted = relative_shift(products, keys)
    assert shifted.shape == (2, HEADS, queries, keys)
    pairs = 0
    for t in range(queries):
        for s in range(keys):
            distance = keys - queries + t - s
            if 0 <= distance < distances:
                torch.testing.assert_close(shifted[:, :, t, s], products[:, :, t, distances - 1 - distance])
                pairs += 1
    assert pairs >= queries


@pytest.mark.parametrize("short", [10**9, -1], ids=["plain", "torch's"])
@pytest.mark.parametrize("d_k", [4, 6])
@pytest.mark.parametrize(("memory", "queries"), [(0, 1), (0, 7), (5, 1), (5, 7), (9, 2)])
def test_attention_equals_its_naive_twin(memory: int, queries: int, d_k: int, short: int) -> None:
    attention = attention_of(d_k=d_k)
    segment, earlier = random(2, queries, D), random(2, memory, D, seed=1)
    context = segment if memory == 0 else torch.cat((earlier, segment), dim=1)
    with patch.object(attention_module, "SHORT", short):
        actual = attention(segment, context, CAUSAL_MASK)
    query = attention.query(segment).unflatten(-1, (HEADS, d_k)).transpose(1, 2)
    key, value = attention.project_memory(context)
    u, v = attention.biases.content, attention.biases.position
    scores = four_terms(query, key, attention.encodings(memory + queries), u, v) / math.sqrt(d_k)
    heads, _ = naive_attention(torch.zeros_like(query), key, value, CAUSAL_MASK, scores)
    torch.testing.assert_close(actual, attention.output(heads.transpose(1, 2).flatten(2)))


def test_gradients_equal_finite_differences() -> None:
    """For the segment, the memory and every parameter."""
    torch.manual_seed(0)
    attention = RelativeAttention(4, 2, SinusoidalDistances(4), ScoreBiases(2, 3), d_k=3).double()
    names = [name for name, _ in attention.named_parameters()]

    def attend(x: Tensor, memory: Tensor, *parameters: Tensor) -> Tensor:
        inputs = (x, torch.cat((memory, x), dim=1), CAUSAL_MASK)
        output = torch.func.functional_call(attention, dict(zip(names, parameters, strict=True)), inputs)
        assert isinstance(output, Tensor)
        return output

    tensors = (random(2, 3, 4), random(2, 2, 4, seed=1), *attention.parameters())
    assert torch.autograd.gradcheck(attend, [tensor.detach().clone().requires_grad_() for tensor in tensors])
