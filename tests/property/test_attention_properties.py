"""The fast kernels equal the equation of attention and have its symmetries."""

from unittest.mock import patch

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from dragoman import attention
from dragoman.attention import AttentionMask, naive_attention, scaled_dot_product_attention

# Lengths up to which sequences are treated as short: none (torch's fused kernel) or all (plain products).
KERNELS = {"fused": -1, "plain": 10**9}

Case = tuple[Tensor, Tensor, Tensor, AttentionMask]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Return queries, keys and values of a small shape, with a mask of any kind."""
    B, H, T, S = (draw(st.integers(1, 4), label=name) for name in "BHTS")
    d_k, d_v = draw(st.integers(1, 9), label="d_k"), draw(st.integers(1, 9), label="d_v")
    causal = draw(st.booleans(), label="causal")
    kind = draw(st.sampled_from(["none", "padding", "any", "any, shared", "nothing"]), label="mask")
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32), label="seed"))

    def random(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    def coins(*shape: int) -> Tensor:
        return torch.rand(shape, generator=generator) < 0.6

    allowed = {
        "none": None,
        "padding": coins(B, 1, S),
        "any": coins(B, T, S),
        "any, shared": coins(1, T, S),
        "nothing": torch.zeros(B, T, S, dtype=torch.bool),
    }[kind]
    mask = AttentionMask(allowed=allowed, causal=causal)
    return random(B, H, T, d_k), random(B, H, S, d_k), random(B, H, S, d_v), mask


def with_gradients(
    attend: object, tensors: tuple[Tensor, ...], mask: AttentionMask, scale: float | None = None
) -> tuple[Tensor, ...]:
    """Return the output, and the gradients of a weighted sum of it with respect to query, key and value."""
    leaves = [tensor.clone().requires_grad_() for tensor in tensors]
    output = attend(*leaves, mask, scale=scale)  # type: ignore[operator]
    output = output[0] if isinstance(output, tuple) else output
    weighting = torch.arange(1.0, output.numel() + 1).view_as(output) / output.numel()
    (output * weighting).sum().backward()
    return (output.detach(), *(leaf.grad for leaf in leaves if leaf.grad is not None))


@settings(deadline=None, max_examples=60)
@given(case=cases(), kernel=st.sampled_from(sorted(KERNELS)), scale=st.sampled_from([None, 1.0, 0.2]))
def test_fast_equals_naive(case: Case, kernel: str, scale: float | None) -> None:
    """Outputs and gradients are equal for any scale, zero in rows that may not attend to any key, and never NaN."""
    *tensors, mask = case
    query, key, _ = tensors
    expected = with_gradients(naive_attention, tuple(tensors), mask, scale)
    with patch.object(attention, "SHORT", KERNELS[kernel]):
        result = with_gradients(scaled_dot_product_attention, tuple(tensors), mask, scale)
    assert len(result) == len(expected) == 4
    for one, other in zip(result, expected, strict=True):
        assert one.isfinite().all()
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)
    # [B, T, S] -> [B, 1, T]
    attends = mask.dense(query.shape[2], key.shape[2], query.device).any(dim=-1).unsqueeze(1)
    output, query_gradient = result[0], result[1]
    for zeros in (output, query_gradient):
        assert zeros.masked_select(~attends.unsqueeze(-1)).eq(0).all()


@settings(deadline=None, max_examples=40)
@given(case=cases(), kernel=st.sampled_from(sorted(KERNELS)))
def test_bf16_is_close_to_float32(case: Case, kernel: str) -> None:
    """bf16 has 8 bits of precision: the error is within 2 % of the largest value."""
    *tensors, mask = case
    half = tuple(tensor.bfloat16() for tensor in tensors)
    expected = with_gradients(naive_attention, tuple(tensor.float() for tensor in half), mask)
    with patch.object(attention, "SHORT", KERNELS[kernel]):
        result = with_gradients(scaled_dot_product_attention, half, mask)
    for one, other in zip(result, expected, strict=True):
        assert one.dtype == torch.bfloat16
        largest = max(1.0, *(float(tensor.abs().max()) for tensor in (*half, other)))
        torch.testing.assert_close(one.float(), other, atol=0.02 * largest, rtol=0.02)


@settings(deadline=None, max_examples=30)
@given(case=cases(), data=st.data())
def test_permutations(case: Case, data: st.DataObject) -> None:
    """A permutation of keys does not change the output; one of queries, heads or sentences permutes the output."""
    query, key, value, mask = case
    T, S = query.shape[2], key.shape[2]
    mask = AttentionMask(allowed=mask.dense(T, S, query.device).expand(len(query), T, S))
    assert mask.allowed is not None
    expected = scaled_dot_product_attention(query, key, value, mask)

    def order(size: int) -> Tensor:
        return torch.tensor(data.draw(st.permutations(range(size))))

    keys, queries, heads, sentences = order(S), order(T), order(query.shape[1]), order(len(query))
    output = scaled_dot_product_attention(
        query, key[:, :, keys], value[:, :, keys], AttentionMask(mask.allowed[:, :, keys])
    )
    torch.testing.assert_close(output, expected)
    output = scaled_dot_product_attention(query[:, :, queries], key, value, AttentionMask(mask.allowed[:, queries]))
    torch.testing.assert_close(output, expected[:, :, queries])
    output = scaled_dot_product_attention(query[:, heads], key[:, heads], value[:, heads], mask)
    torch.testing.assert_close(output, expected[:, heads])
    output = scaled_dot_product_attention(
        query[sentences], key[sentences], value[sentences], AttentionMask(mask.allowed[sentences])
    )
    torch.testing.assert_close(output, expected[sentences])


@settings(deadline=None, max_examples=30)
@given(case=cases())
def test_masked_keys_and_constant_offsets_do_not_matter(case: Case) -> None:
    """The output does not depend on masked keys and values, nor on a vector that is added to every key."""
    query, key, value, mask = case
    expected = scaled_dot_product_attention(query, key, value, mask)
    # [B, T, S] -> [B, 1, S, 1]: keys that some query attends to
    attended = mask.dense(query.shape[2], key.shape[2], query.device).any(dim=1)[:, None, :, None]
    changed = torch.where(attended, key, key + 100), torch.where(attended, value, value - 100)
    torch.testing.assert_close(scaled_dot_product_attention(query, *changed, mask), expected)
    # The softmax does not change with a constant: q·(k + c) = q·k + q·c
    shifted = scaled_dot_product_attention(query, key + key[:, :, :1], value, mask)
    torch.testing.assert_close(shifted, expected, atol=1e-4, rtol=1e-4)


@settings(deadline=None, max_examples=30)
@given(case=cases())
def test_weights_are_a_distribution_over_the_allowed_keys(case: Case) -> None:
    query, key, value, mask = case
    output, weights = naive_attention(query, key, value, mask)
    allowed = mask.dense(query.shape[2], key.shape[2], query.device).unsqueeze(1)
    assert weights.masked_select(~allowed.expand_as(weights)).eq(0).all()
    assert weights.ge(0).all()
    attends = allowed.any(dim=-1).expand(weights.shape[:-1])
    torch.testing.assert_close(weights.sum(dim=-1), attends.float())
    # The weighted mean of equal values is that value.
    ones = scaled_dot_product_attention(query, key, torch.ones_like(value), mask)
    torch.testing.assert_close(ones, attends.float().unsqueeze(-1).expand_as(output))
