"""Attention masks, both kernels at their border, and multi-head attention head by head."""

import dataclasses
import math

import pytest
import torch
from torch import Tensor

from dragoman.attention import (
    CAUSAL_MASK,
    NO_MASK,
    SHORT,
    AttentionMask,
    MultiHeadAttention,
    naive_attention,
    scaled_dot_product_attention,
)
from dragoman.layers.positions import RotaryPositions

CPU = torch.device("cpu")


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_dense_masks() -> None:
    real = torch.tensor([[True, True, False], [True, False, False]])
    assert AttentionMask.padding(real).dense(2, 3, CPU).equal(real.unsqueeze(1))
    assert NO_MASK.dense(2, 3, CPU).expand(1, 2, 3).all()
    assert CAUSAL_MASK.dense(2, 3, CPU).equal(torch.tensor([[[True, False, False], [True, True, False]]]))
    both = AttentionMask(allowed=real.unsqueeze(1), causal=True)
    assert both.dense(3, 3, CPU).equal(real.unsqueeze(1) & torch.ones(3, 3, dtype=torch.bool).tril())


def test_masks_are_boolean_of_three_dimensions_and_frozen() -> None:
    # Whoever runs with shape checks hears of it from those, everybody else from the class.
    for wrong in (torch.ones(1, 2, 3), torch.ones(2, 3, dtype=torch.bool)):
        with pytest.raises(Exception, match=r"mask|Bool"):
            AttentionMask(allowed=wrong)
    with pytest.raises(dataclasses.FrozenInstanceError):
        NO_MASK.causal = True  # type: ignore[misc]


def test_naive_weights_are_the_formula() -> None:
    query, key, value = random(1, 1, 1, 4), random(1, 1, 3, 4, seed=1), random(1, 1, 3, 2, seed=2)
    output, weights = naive_attention(query, key, value)
    scores = [math.exp(float(query[0, 0, 0] @ key[0, 0, s]) / 2) for s in range(3)]
    expected = torch.tensor(scores, dtype=torch.float64) / sum(scores)
    torch.testing.assert_close(weights[0, 0, 0], expected)
    torch.testing.assert_close(output[0, 0, 0], expected @ value[0, 0])


@pytest.mark.parametrize("keys", [SHORT // 64, SHORT // 64 + 1], ids=["short", "long"])
@pytest.mark.parametrize("causal", [False, True])
def test_both_sides_of_the_threshold(keys: int, causal: bool) -> None:
    """64 queries: the last size for plain products, and the first for torch's kernel."""
    query, key, value = random(2, 1, 64, 4), random(2, 1, keys, 4, seed=1), random(2, 1, keys, 4, seed=2)
    allowed = torch.ones(2, 64, keys, dtype=torch.bool)
    allowed[0, :, 50:] = False
    allowed[1, 7] = False
    for mask in (AttentionMask(causal=causal), AttentionMask(allowed=allowed, causal=causal)):
        torch.testing.assert_close(
            scaled_dot_product_attention(query, key, value, mask), naive_attention(query, key, value, mask)[0]
        )


def test_nothing_to_attend_to_gives_zeros() -> None:
    output = scaled_dot_product_attention(random(2, 3, 4, 8), random(2, 3, 0, 8), random(2, 3, 0, 8))
    assert output.equal(torch.zeros(2, 3, 4, 8, dtype=torch.float64))


@pytest.mark.parametrize("length", [16, 160], ids=["short", "long"])
@pytest.mark.parametrize("masked", [False, True])
def test_dropout_drops_weights_and_keeps_their_expectation(length: int, masked: bool) -> None:
    torch.manual_seed(0)
    query = torch.zeros(8, 4, length, 4)
    # With equal weights and the identity as values, the output is the weights: 1/length each.
    value = torch.eye(length).expand(8, 4, length, length)
    key = torch.zeros(8, 4, length, 4)
    mask = AttentionMask(allowed=torch.ones(8, 1, length, dtype=torch.bool)) if masked else NO_MASK
    weights = scaled_dot_product_attention(query, key, value, mask, dropout=0.25)
    kept = weights > 0
    assert kept.float().mean().item() == pytest.approx(0.75, abs=0.02)
    torch.testing.assert_close(weights[kept], torch.full_like(weights[kept], 1 / (0.75 * length)))


def test_heads_one_by_one() -> None:
    """MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W^O, with the projections cut by hand."""
    torch.manual_seed(0)
    attention = MultiHeadAttention(12, 3, bias=True).double()
    x, memory = random(2, 5, 12), random(2, 7, 12, seed=1)
    real = torch.arange(7) < torch.tensor([[7], [4]])
    heads = []
    for i in range(3):
        rows = slice(4 * i, 4 * i + 4)
        query, key, value = (
            (y @ layer.weight[rows].t() + layer.bias[rows]).unsqueeze(1)
            for y, layer in ((x, attention.query), (memory, attention.key), (memory, attention.value))
        )
        heads.append(naive_attention(query, key, value, AttentionMask.padding(real))[0].squeeze(1))
    expected = torch.cat(heads, dim=-1) @ attention.output.weight.t() + attention.output.bias
    torch.testing.assert_close(attention(x, memory, AttentionMask.padding(real)), expected)


def test_projections_have_no_bias_by_default() -> None:
    assert all(name.endswith("weight") for name, _ in MultiHeadAttention(8, 2).named_parameters())
    assert sum(p.numel() for p in MultiHeadAttention(8, 2).parameters()) == 4 * 8 * 8
    assert sum(p.numel() for p in MultiHeadAttention(8, 2, bias=True).parameters()) == 4 * (8 * 8 + 8)


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(AssertionError, match="divide"):
        MultiHeadAttention(8, 3)


def test_weights_drop_in_training_only() -> None:
    torch.manual_seed(0)
    dropping, whole = MultiHeadAttention(8, 2, dropout=0.5), MultiHeadAttention(8, 2)
    whole.load_state_dict(dropping.state_dict())
    x = torch.randn(2, 6, 8)
    assert not dropping(x, x).equal(whole(x, x))
    assert dropping.eval()(x, x).equal(whole.eval()(x, x))


def test_projected_memory_can_be_cut_and_joined() -> None:
    """The key-value cache: projecting in two pieces, at their offsets, is projecting at once."""
    torch.manual_seed(0)
    attention = MultiHeadAttention(8, 2, rotation=RotaryPositions(4)).double()
    x = random(2, 6, 8)
    pieces = [attention.project_memory(x[:, :4]), attention.project_memory(x[:, 4:], offset=4)]
    key, value = (torch.cat(parts, dim=2) for parts in zip(*pieces, strict=True))
    torch.testing.assert_close((key, value), attention.project_memory(x))
    torch.testing.assert_close(attention.attend(x[:, 4:], key, value, offset=4), attention(x, x)[:, 4:])


def test_rotation_sees_distances_only() -> None:
    """Moved as one, queries and keys attend as before."""
    torch.manual_seed(0)
    attention = MultiHeadAttention(8, 2, rotation=RotaryPositions(4)).double()
    x = random(1, 6, 8)
    key, value = attention.project_memory(x, offset=40)
    torch.testing.assert_close(attention.attend(x, key, value, offset=40), attention(x, x), atol=1e-6, rtol=1e-6)
    # And they do see distances: turned around, the same words give other sums.
    assert not torch.allclose(attention(x.flip(1), x.flip(1)).flip(1), attention(x, x), atol=1e-3)
