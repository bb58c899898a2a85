"""Relative positions against the equations of Shaw et al. (2018) in NumPy, with a vector for each pair of positions."""

from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from dragoman import attention as attention_module
from dragoman.attention import CAUSAL_MASK, AttentionMask, MultiHeadAttention
from dragoman.layers.positions import RelativePositions
from dragoman.models.config.transformer import TransformerConfig
from dragoman.models.transformer import Transformer, build_transformer
from dragoman.packing import Packed, Padded
from tests.support.loss import loss_of_states

Array = NDArray[np.float64]

D, HEADS, V = 12, 3, 20
# Attention uses different code for up to 128 tokens and for more.
LENGTHS = pytest.mark.parametrize("length", [7, 140], ids=["short", "long"])


def attention_of(max_distance: int, *, d_k: int = 4, future: bool) -> MultiHeadAttention:
    """Return an attention in float64 with random weights, including the vectors of distances."""
    torch.manual_seed(max_distance)
    relative = RelativePositions(max_distance, d_k, future=future)
    attention = MultiHeadAttention(D, HEADS, d_k=d_k, bias=True, relative=relative).double()
    for parameter in attention.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return attention


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def expected_output(attention: MultiHeadAttention, x: Tensor, allowed: NDArray[np.bool_], k: int) -> Array:
    """Compute equations 2 to 4 of the paper for each head and each sentence: [B, T, D].

    e_ij = x_i W^Q (x_j W^K + a_ij)^T / √d_z, where a_ij = w_{clip(j - i, k)}; z_i = Σ_j softmax_j(e_ij) x_j W^V.
    """
    weights = {name: parameter.detach().numpy() for name, parameter in attention.named_parameters()}
    vectors = weights["relative.embedding.weight"]

    def projected(name: str, row: Array) -> list[Array]:
        flat: Array = row @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]
        return np.split(flat, HEADS, axis=-1)

    T = x.shape[1]
    distance = np.arange(T)[None, :] - np.arange(T)[:, None]
    # Later keys, which have no vectors in a decoder, are masked: any vector can be used for them.
    a = vectors[np.clip(np.clip(distance, -k, k) + k, 0, len(vectors) - 1)]
    assert a.shape == (T, T, vectors.shape[1])
    sentences = []
    for row, row_allowed in zip(x.numpy(), allowed, strict=True):
        heads = []
        for query, key, value in zip(*(projected(name, row) for name in ("query", "key", "value")), strict=True):
            # [T, 1, K] · ([1, T, K] + [T, T, K]) -> [T, T]
            e = (query[:, None] * (key[None] + a)).sum(axis=-1) / np.sqrt(query.shape[-1])
            e = np.where(row_allowed, e, -np.inf)
            alpha = np.exp(e - e.max(axis=-1, keepdims=True))
            heads.append(alpha / alpha.sum(axis=-1, keepdims=True) @ value)
        sentences.append(np.concatenate(heads, axis=-1) @ weights["output.weight"].T + weights["output.bias"])
    return np.stack(sentences)


@LENGTHS
@pytest.mark.parametrize("max_distance", [1, 3, 16, 200])
@pytest.mark.parametrize("d_k", [4, 6])
def test_attention_of_an_encoder(max_distance: int, d_k: int, length: int) -> None:
    attention = attention_of(max_distance, d_k=d_k, future=True)
    x, real = random(2, length, D), torch.arange(length) < torch.tensor([[length], [5]])
    actual = attention(x, x, AttentionMask.padding(real))
    expected = expected_output(attention, x, real.numpy()[:, None, :].repeat(length, axis=1), max_distance)
    np.testing.assert_allclose(actual.detach().numpy(), expected, rtol=1e-9, atol=1e-9)


@LENGTHS
@pytest.mark.parametrize("max_distance", [1, 3, 200])
def test_attention_of_a_decoder(max_distance: int, length: int) -> None:
    """All positions at once, and the last three positions separately, with earlier keys in a cache."""
    attention = attention_of(max_distance, future=False)
    x = random(2, length, D)
    expected = expected_output(attention, x, np.tri(length, dtype=bool)[None].repeat(2, axis=0), max_distance)
    np.testing.assert_allclose(attention(x, x, CAUSAL_MASK).detach().numpy(), expected, rtol=1e-9, atol=1e-9)
    key, value = attention.project_memory(x)
    for t in range(length - 3, length):
        actual = attention.attend(x[:, t : t + 1], key[:, :, : t + 1], value[:, :, : t + 1], offset=t)
        np.testing.assert_allclose(actual.detach().numpy(), expected[:, t : t + 1], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("short", [10**9, -1], ids=["plain", "torch's"])
@pytest.mark.parametrize("future", [True, False], ids=["encoder", "decoder"])
def test_gradients_equal_finite_differences(future: bool, short: int) -> None:
    """For the inputs and every parameter; one of the sentences is only padding."""
    torch.manual_seed(0)
    attention = MultiHeadAttention(4, 2, d_k=3, relative=RelativePositions(1, 3, future=future)).double()
    names = [name for name, _ in attention.named_parameters()]
    real = torch.tensor([[True] * 3, [False] * 3])
    mask = AttentionMask(allowed=real.unsqueeze(1), causal=not future)

    def attend(x: Tensor, *parameters: Tensor) -> Tensor:
        output = torch.func.functional_call(attention, dict(zip(names, parameters, strict=True)), (x, x, mask))
        assert isinstance(output, Tensor)
        return output

    inputs = [tensor.detach().clone().requires_grad_() for tensor in (random(2, 3, 4), *attention.parameters())]
    with patch.object(attention_module, "SHORT", short):
        assert torch.autograd.gradcheck(attend, inputs)


def model_of(**changes: Any) -> Transformer:
    settings: dict[str, Any] = {
        "source_vocabulary": V,
        "target_vocabulary": V,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "d_model": D,
        "heads": HEADS,
        "d_ff": 20,
        "dropout": 0.0,
        "positions": "relative",
        "max_distance": 4,
    }
    torch.manual_seed(0)
    model = build_transformer(TransformerConfig(**{**settings, **changes})).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


def batch(length: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return source, source mask, target and target mask of three sentences of different lengths."""
    generator = torch.Generator().manual_seed(1)
    source, target = torch.randint(V, (2, 3, length), generator=generator)
    source_mask = torch.arange(length) < torch.tensor([[length], [length - 2], [1]])
    target_mask = torch.arange(length) < torch.tensor([[length], [1], [length - 3]])
    return source, source_mask, target, target_mask


@LENGTHS
@pytest.mark.parametrize("changes", [{}, {"norm_placement": "pre", "max_distance": 200}], ids=str)
def test_a_packed_model_equals_a_padded_one(changes: dict[str, Any], length: int) -> None:
    """Attention's grid is larger than the batch, but the positions are the same."""
    source, source_mask, target, target_mask = batch(length)
    results = []
    for layout in (Packed, Padded):
        model = model_of(**changes)
        memory = model.encode_rows(source, layout(source_mask))
        states = model.decode_rows(target, layout(target_mask), memory).states
        loss, _ = loss_of_states(states, model.output.weight, target, target_mask, 0.1)
        loss.backward()
        gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
        results.append((states[target_mask].detach(), loss.detach(), gradients))
    torch.testing.assert_close(*results)


@torch.no_grad()
def test_steps_of_a_long_sentence_equal_decoding_at_once() -> None:
    """For more than 128 tokens, all positions at once use torch's kernel, and single positions do not."""
    model = model_of(encoder_layers=1, decoder_layers=1).eval()
    source, source_mask, target, _ = batch(140)
    memory = model.encode(source, source_mask)
    expected = model.decode(target, memory)
    state = model.start(memory)
    for t in range(target.shape[1]):
        logits, state = model.step(target[:, t], state)
        torch.testing.assert_close(logits, expected[:, t], rtol=1e-9, atol=1e-9)
