"""The layer of Transformer-XL: segments with a memory, gradients, and reading in pieces."""

import pytest
import torch
from torch import Tensor

from dragoman.attention import CAUSAL_MASK, AttentionMask
from dragoman.layers.feed_forward import FeedForward
from dragoman.layers.norms import LayerNorm, PostNorm, PreNorm
from dragoman.layers.positions import SinusoidalDistances
from dragoman.layers.relative_attention import RelativeAttention, ScoreBiases
from dragoman.layers.segment_layer import SegmentLayer, last_positions

D, HEADS, K = 12, 3, 4


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def layer_of(placement: type[PostNorm] | type[PreNorm]) -> SegmentLayer:
    torch.manual_seed(0)
    attention = RelativeAttention(D, HEADS, SinusoidalDistances(D), ScoreBiases(HEADS, K))
    feed_forward = FeedForward(D, 20, activation="relu", dropout=0.0)
    residuals = [placement(LayerNorm(D), 0.0) for _ in range(2)]
    layer = SegmentLayer(attention, feed_forward, *residuals).double().eval()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return layer


@pytest.mark.parametrize("placement", [PostNorm, PreNorm])
def test_one_layer_with_memory_equals_the_whole_text(placement: type[PostNorm] | type[PreNorm]) -> None:
    """For one layer, segments with a memory of everything before them equal one segment, exactly."""
    layer = layer_of(placement)
    x = random(2, 11, D)
    expected, _ = layer(x, None, CAUSAL_MASK)
    memory, outputs = None, []
    for segment in x.split(4, dim=1):
        output, memory = layer(segment, memory, CAUSAL_MASK)
        outputs.append(output)
    torch.testing.assert_close(torch.cat(outputs, dim=1), expected)


@pytest.mark.parametrize("placement", [PostNorm, PreNorm])
def test_no_gradient_flows_into_the_memory(placement: type[PostNorm] | type[PreNorm]) -> None:
    layer = layer_of(placement)
    earlier, segment = random(2, 5, D).requires_grad_(), random(2, 3, D, seed=1).requires_grad_()
    _, memory = layer(earlier, None, CAUSAL_MASK)
    memory.requires_grad_()
    output, _ = layer(segment, memory, CAUSAL_MASK)
    output.sum().backward()
    assert earlier.grad is None
    assert memory.grad is None
    assert segment.grad is not None


@torch.no_grad()
@pytest.mark.parametrize("span", [1, 4, 30])
@pytest.mark.parametrize("placement", [PostNorm, PreNorm])
def test_reading_in_pieces(placement: type[PostNorm] | type[PreNorm], span: int) -> None:
    """Pieces of any length give the same output, each position attending to itself and span - 1 before it."""
    layer = layer_of(placement)
    x = random(2, 11, D)
    distance = torch.arange(11).unsqueeze(1) - torch.arange(11)
    band = AttentionMask(allowed=((distance >= 0) & (distance < span)).unsqueeze(0))
    expected, _ = layer(x, None, band)
    encodings = layer.self_attention.encodings(span)
    for pieces in ([11], [1] * 11, [3, 1, 5, 2]):
        cache, outputs = layer.start(x[:, :0]), []
        for piece in x.split(pieces, dim=1):
            length = piece.shape[1]
            mask = last_positions(length, cache.key.shape[2] + length, span, x.device)
            output, cache = layer.read(piece, cache, encodings, mask)
            outputs.append(output)
        torch.testing.assert_close(torch.cat(outputs, dim=1), expected)
        assert cache.key.shape[2] == cache.value.shape[2] == min(span - 1, 11)
    swapped = cache.reorder(torch.tensor([1, 0, 1]))
    torch.testing.assert_close(swapped.key, cache.key[[1, 0, 1]])
    torch.testing.assert_close(swapped.value, cache.value[[1, 0, 1]])
