"""Attention masks, both implementations of attention at the length where they switch, and multi-head attention."""

import dataclasses
import math
from typing import Any
from unittest.mock import patch

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from dragoman import attention as attention_module
from dragoman.attention import (
    CAUSAL_MASK,
    NO_MASK,
    SHORT,
    AttentionMask,
    MultiHeadAttention,
    naive_attention,
    scaled_dot_product_attention,
)
from dragoman.layers.positions import RelativePositions, RotaryPositions
from dragoman.packing import Packed

CPU = torch.device("cpu")


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_dense_masks() -> None:
    real = torch.tensor([[True, True, False], [True, False, False]])
    assert AttentionMask.padding(real).dense(2, 3, CPU).equal(real.unsqueeze(1))
    assert NO_MASK.dense(2, 3, CPU).expand(1, 2, 3).all()
    assert CAUSAL_MASK.dense(2, 3, CPU).equal(torch.tensor([[[True, True, False], [True, True, True]]]))
    both = AttentionMask(allowed=real.unsqueeze(1), causal=True)
    assert both.dense(3, 3, CPU).equal(real.unsqueeze(1) & torch.ones(3, 3, dtype=torch.bool).tril())


def test_masks_are_boolean_of_three_dimensions_and_frozen() -> None:
    # The error is raised by the runtime check of shapes, if it is active, and otherwise by the class.
    for wrong in (torch.ones(1, 2, 3), torch.ones(2, 3, dtype=torch.bool)):
        with pytest.raises(Exception, match=r"mask|Bool"):
            AttentionMask(allowed=wrong)
    with pytest.raises(dataclasses.FrozenInstanceError):
        NO_MASK.causal = True  # type: ignore[misc]


@pytest.mark.parametrize(("scale", "factor"), [(None, 1 / 2), (1.0, 1), (0.3, 0.3)])
def test_naive_weights_are_the_formula(scale: float | None, factor: float) -> None:
    query, key, value = random(1, 1, 1, 4), random(1, 1, 3, 4, seed=1), random(1, 1, 3, 2, seed=2)
    output, weights = naive_attention(query, key, value, scale=scale)
    scores = [math.exp(float(query[0, 0, 0] @ key[0, 0, s]) * factor) for s in range(3)]
    expected = torch.tensor(scores, dtype=torch.float64) / sum(scores)
    torch.testing.assert_close(weights[0, 0, 0], expected)
    torch.testing.assert_close(output[0, 0, 0], expected @ value[0, 0])


@pytest.mark.parametrize("keys", [SHORT // 64, SHORT // 64 + 1], ids=["short", "long"])
@pytest.mark.parametrize("causal", [False, True])
def test_both_sides_of_the_threshold(keys: int, causal: bool) -> None:
    """64 queries, with the largest number of keys for plain products, and the smallest for torch's kernel."""
    query, key, value = random(2, 1, 64, 4), random(2, 1, keys, 4, seed=1), random(2, 1, keys, 4, seed=2)
    allowed = torch.ones(2, 64, keys, dtype=torch.bool)
    allowed[0, :, 50:] = False
    allowed[1, 7] = False
    for mask in (AttentionMask(causal=causal), AttentionMask(allowed=allowed, causal=causal)):
        torch.testing.assert_close(
            scaled_dot_product_attention(query, key, value, mask), naive_attention(query, key, value, mask)[0]
        )


# The value of SHORT: all lengths use plain products, or all use torch's kernels.
KERNELS = pytest.mark.parametrize("short", [10**9, -1], ids=["plain", "torch's"])


# A mask for two sentences with 4 queries and 5 keys; some queries may attend to no key.
ANY = (random(2, 4, 5, seed=7) < 0.5) & torch.tensor([True, True, True, False]).view(4, 1)
MASKS = {
    "none": NO_MASK,
    "causal": CAUSAL_MASK,
    "padding": AttentionMask.padding(torch.arange(5) < torch.tensor([[5], [0]])),
    "any": AttentionMask(allowed=ANY),
    "any, causal": AttentionMask(allowed=ANY, causal=True),
}


@KERNELS
@pytest.mark.parametrize("kind", MASKS)
def test_a_bias_is_added_to_the_scaled_scores(kind: str, short: int) -> None:
    """The fast and the naive function have the same outputs and gradients, including the gradient of the bias.

    Outputs and gradients are zero where no key is allowed.
    """
    mask = MASKS[kind]
    leaves = [random(2, 3, 4, 6), random(2, 3, 5, 6, seed=1), random(2, 3, 5, 2, seed=2), random(2, 3, 4, 5, seed=3)]
    outcomes = []
    for naive in (True, False):
        query, key, value, bias = (leaf.clone().requires_grad_() for leaf in leaves)
        if naive:
            output, _ = naive_attention(query, key, value, mask, bias)
        else:
            with patch.object(attention_module, "SHORT", short):
                output = scaled_dot_product_attention(query, key, value, mask, bias=bias)
        (output * random(2, 3, 4, 2, seed=4)).sum().backward()
        outcomes.append((output, query.grad, key.grad, value.grad, bias.grad))
        # [B, T, S] -> [B, 1, T, S]: a masked attention score affects neither outputs nor gradients
        allowed = mask.dense(4, 5, CPU).unsqueeze(1)
        assert bias.grad is not None
        assert bias.grad.masked_select(~allowed).eq(0).all()
        assert output.masked_select(~allowed.any(dim=-1, keepdim=True)).eq(0).all()
    torch.testing.assert_close(*outcomes)


def test_a_biased_softmax_by_hand() -> None:
    query, key, bias = random(1, 1, 1, 4), random(1, 1, 3, 4, seed=1), random(1, 1, 1, 3, seed=2)
    _, weights = naive_attention(query, key, key, bias=bias)
    scores = [math.exp(float(query[0, 0, 0] @ key[0, 0, s]) / 2 + float(bias[0, 0, 0, s])) for s in range(3)]
    torch.testing.assert_close(weights[0, 0, 0], torch.tensor(scores, dtype=torch.float64) / sum(scores))


@KERNELS
def test_a_bias_in_half_precision(short: int) -> None:
    query, key, bias = random(2, 3, 4, 6), random(2, 3, 5, 6, seed=1), random(2, 3, 4, 5, seed=2)
    expected, _ = naive_attention(query, key, key, CAUSAL_MASK, bias)
    with patch.object(attention_module, "SHORT", short):
        actual = scaled_dot_product_attention(
            query.bfloat16(), key.bfloat16(), key.bfloat16(), CAUSAL_MASK, bias=bias.bfloat16()
        )
    assert actual.dtype == torch.bfloat16
    torch.testing.assert_close(actual.double(), expected, atol=0.05, rtol=0.05)


def test_torchs_causal_kernel_is_used_without_a_bias() -> None:
    """Its memory is linear in the length, because it needs no mask tensor."""
    query = random(1, 2, 200, 4)
    with patch.object(F, "scaled_dot_product_attention", wraps=F.scaled_dot_product_attention) as kernel:
        scaled_dot_product_attention(query, query, query, CAUSAL_MASK)
        assert kernel.call_args.kwargs == {"dropout_p": 0.0, "is_causal": True, "scale": None}
        scaled_dot_product_attention(query, query, query, CAUSAL_MASK, bias=random(1, 2, 200, 200))
        assert kernel.call_args.kwargs["attn_mask"].shape == (1, 2, 200, 200)


def test_the_output_is_zeros_without_keys() -> None:
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


@pytest.mark.parametrize(("d_k", "d_v"), [(None, None), (1, None), (4, 5), (7, 2)])
@pytest.mark.parametrize("self_attention", [True, False], ids=["self-attention", "memory"])
def test_heads_one_by_one(d_k: int | None, d_v: int | None, self_attention: bool) -> None:
    """MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W^O, with the projections split by hand."""
    torch.manual_seed(0)
    attention = MultiHeadAttention(12, 3, d_k=d_k, d_v=d_v, bias=True).double()
    for layer in (attention.query, attention.key, attention.value):
        torch.nn.init.normal_(layer.bias)
    x = random(2, 7, 12)
    memory = x if self_attention else random(2, 7, 12, seed=1)
    real = torch.arange(7) < torch.tensor([[7], [4]])
    heads = []
    for i in range(3):
        keys, values = (slice(width * i, width * i + width) for width in (d_k or 4, d_v or 4))
        query, key, value = (
            (y @ layer.weight[rows].t() + layer.bias[rows]).unsqueeze(1)
            for y, layer, rows in (
                (x, attention.query, keys),
                (memory, attention.key, keys),
                (memory, attention.value, values),
            )
        )
        heads.append(naive_attention(query, key, value, AttentionMask.padding(real))[0].squeeze(1))
    expected = torch.cat(heads, dim=-1) @ attention.output.weight.t() + attention.output.bias
    torch.testing.assert_close(attention(x, memory, AttentionMask.padding(real)), expected)
    key, value = attention.project_memory(memory)
    torch.testing.assert_close(attention.attend(x, key, value, AttentionMask.padding(real)), expected)


def test_the_default_width_of_keys() -> None:
    """d_k = d_model / heads is the default; the results are bitwise equal."""
    explicit, default = MultiHeadAttention(12, 3, d_k=4), MultiHeadAttention(12, 3)
    explicit.load_state_dict(default.state_dict())
    x = torch.randn(2, 5, 12)
    assert explicit(x, x).equal(default(x, x))
    narrow = MultiHeadAttention(12, 3, d_k=2)
    assert sum(p.numel() for p in narrow.parameters()) == 2 * 12 * 6 + 2 * 12 * 12


@pytest.mark.parametrize("length", [9, 140], ids=["short", "long"])
def test_packed_rows_with_a_width_of_keys(length: int) -> None:
    """Packed rows and the padded batch have the same results."""
    torch.manual_seed(0)
    attention = MultiHeadAttention(12, 3, d_k=5).double()
    real = torch.arange(length) < torch.tensor([[length], [4]])
    layout = Packed(real)
    x = random(2, length, 12)
    rows = layout.rows(x)
    actual = attention(rows, rows, AttentionMask.between(layout, layout))
    torch.testing.assert_close(layout.batch(actual)[real], attention(x, x, AttentionMask.padding(real))[real])


def test_projections_have_no_bias_by_default() -> None:
    assert all(name.endswith("weight") for name, _ in MultiHeadAttention(8, 2).named_parameters())
    assert sum(p.numel() for p in MultiHeadAttention(8, 2).parameters()) == 4 * 8 * 8
    assert sum(p.numel() for p in MultiHeadAttention(8, 2, bias=True).parameters()) == 4 * (8 * 8 + 8)


def test_heads_must_divide_the_width() -> None:
    for d_k, d_v in ((None, None), (2, None), (None, 2)):
        with pytest.raises(AssertionError, match="divide"):
            MultiHeadAttention(8, 3, d_k=d_k, d_v=d_v)
    assert MultiHeadAttention(8, 3, d_k=2, d_v=4).output.in_features == 12


@pytest.mark.parametrize("length", [6, 140], ids=["short", "long"])
@pytest.mark.parametrize("positions", ["none", "rotary", "relative"])
def test_a_scale_is_a_factor_of_the_queries(positions: str, length: int) -> None:
    """Attention with a scale equals the paper's with the query's matrix times scale · √d_k, distances included."""

    def attention(scale: float | None) -> MultiHeadAttention:
        rotation = RotaryPositions(4) if positions == "rotary" else None
        relative = RelativePositions(3, 4, future=True, scale=scale) if positions == "relative" else None
        return MultiHeadAttention(8, 2, d_v=3, scale=scale, rotation=rotation, relative=relative).double()

    scaled, usual = attention(0.9), attention(None)
    usual.load_state_dict(scaled.state_dict())
    usual.query.weight.data.mul_(0.9 * 2)
    x = random(2, length, 8)
    torch.testing.assert_close(scaled(x, x, CAUSAL_MASK), usual(x, x, CAUSAL_MASK))
    key, value = scaled.project_memory(x)
    last = scaled.attend(x[:, -1:], key, value, offset=length - 1)
    torch.testing.assert_close(last, usual(x, x, CAUSAL_MASK)[:, -1:])


def test_weights_are_dropped_in_training_only() -> None:
    torch.manual_seed(0)
    with_dropout, without_dropout = MultiHeadAttention(8, 2, dropout=0.5), MultiHeadAttention(8, 2)
    without_dropout.load_state_dict(with_dropout.state_dict())
    x = torch.randn(2, 6, 8)
    assert not with_dropout(x, x).equal(without_dropout(x, x))
    assert with_dropout.eval()(x, x).equal(without_dropout.eval()(x, x))


@pytest.mark.parametrize(
    "positions",
    [{}, {"rotation": RotaryPositions(6)}, {"relative": RelativePositions(2, 6, future=True)}],
    ids=["none", "rotary", "relative"],
)
def test_projected_memory_can_be_concatenated(positions: dict[str, Any]) -> None:
    """The key-value cache: projecting two parts at their offsets equals projecting all at once."""
    torch.manual_seed(0)
    attention = MultiHeadAttention(8, 2, d_k=6, **positions).double()
    x = random(2, 6, 8)
    parts = [attention.project_memory(x[:, :4]), attention.project_memory(x[:, 4:], offset=4)]
    key, value = (torch.cat(tensors, dim=2) for tensors in zip(*parts, strict=True))
    torch.testing.assert_close((key, value), attention.project_memory(x))
    torch.testing.assert_close(attention.attend(x[:, 4:], key, value, offset=4), attention(x, x)[:, 4:])


def test_relative_positions_depend_on_distances_only() -> None:
    """The same tokens at later positions have the same outputs; in reverse order, they have not."""
    torch.manual_seed(0)
    attention = MultiHeadAttention(8, 2, relative=RelativePositions(3, 4, future=True)).double()
    x = random(1, 10, 8)
    last_six = AttentionMask(allowed=(torch.arange(10) >= 4).expand(1, 10, 10))
    torch.testing.assert_close(attention(x, x, last_six)[:, 4:], attention(x[:, 4:], x[:, 4:]))
    reverse = x.flip(1)
    assert not torch.allclose(attention(reverse, reverse).flip(1), attention(x, x), atol=1e-3)


def test_rotation_depends_on_distances_only() -> None:
    """If queries and keys are moved by the same number of positions, the outputs do not change."""
    torch.manual_seed(0)
    attention = MultiHeadAttention(8, 2, rotation=RotaryPositions(4)).double()
    x = random(1, 6, 8)
    key, value = attention.project_memory(x, offset=40)
    torch.testing.assert_close(attention.attend(x, key, value, offset=40), attention(x, x), atol=1e-6, rtol=1e-6)
    # Distances do matter: in reverse order, the same tokens have other outputs.
    assert not torch.allclose(attention(x.flip(1), x.flip(1)).flip(1), attention(x, x), atol=1e-3)


@pytest.mark.parametrize("keys", [7, 200])
def test_causal_queries_are_at_the_last_positions_of_the_keys(keys: int) -> None:
    """For few and for many keys, which different kernels compute."""
    query, key, value = random(2, 2, keys, 4), random(2, 2, keys, 4, seed=1), random(2, 2, keys, 4, seed=2)
    expected = naive_attention(query, key, value, CAUSAL_MASK)[0][:, :, -5:]
    actual = scaled_dot_product_attention(query[:, :, -5:], key, value, CAUSAL_MASK)
    torch.testing.assert_close(actual, expected)
