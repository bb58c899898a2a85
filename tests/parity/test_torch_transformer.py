"""The Transformer against torch.nn.Transformer, with the same weights: outputs and gradients."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dragoman.attention import MultiHeadAttention
from dragoman.models.config.transformer import TransformerConfig
from dragoman.models.transformer import Transformer, build_transformer

Pairs = Iterator[tuple[str, Tensor, Tensor]]

D, HEADS, D_FF, LAYERS, V = 16, 4, 40, 2, 30
PLACEMENTS = pytest.mark.parametrize("placement", ["post", "pre"])
ACTIVATIONS = pytest.mark.parametrize("activation", ["relu", "gelu"])
# Attention uses different code for up to 128 tokens and for more.
LENGTHS = pytest.mark.parametrize("lengths", [(7, 5), (150, 120)], ids=["short", "long"])


def build(placement: Any, activation: Any) -> Transformer:
    """Return our model in float64, with random noise added to all weights and biases."""
    torch.manual_seed(0)
    model = build_transformer(
        TransformerConfig(
            source_vocabulary=V,
            target_vocabulary=V,
            encoder_layers=LAYERS,
            decoder_layers=LAYERS,
            d_model=D,
            heads=HEADS,
            d_ff=D_FF,
            dropout=0.0,
            norm_placement=placement,
            activation=activation,
            attention_bias=True,
        )
    ).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


def torch_model(placement: str, activation: str) -> nn.Transformer:
    """Return torch's model with the same sizes, and a final norm only for pre-norm, as in ours."""
    settings: dict[str, Any] = {
        "d_model": D,
        "nhead": HEADS,
        "dim_feedforward": D_FF,
        "dropout": 0.0,
        "activation": activation,
        "layer_norm_eps": 1e-6,
        "batch_first": True,
        "norm_first": placement == "pre",
        "dtype": torch.float64,
    }

    def final_norm() -> nn.LayerNorm | None:
        return nn.LayerNorm(D, eps=1e-6, dtype=torch.float64) if placement == "pre" else None

    return nn.Transformer(
        d_model=D,
        nhead=HEADS,
        batch_first=True,
        custom_encoder=nn.TransformerEncoder(
            nn.TransformerEncoderLayer(**settings), LAYERS, final_norm(), enable_nested_tensor=False
        ),
        custom_decoder=nn.TransformerDecoder(nn.TransformerDecoderLayer(**settings), LAYERS, final_norm()),
    )


def same_attention(name: str, ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> Pairs:
    """Yield the weights of an attention; torch stores the projections of queries, keys and values as one matrix."""
    for i, layer in enumerate((ours.query, ours.key, ours.value)):
        rows = slice(i * D, (i + 1) * D)
        yield f"{name}.{i}", layer.weight, theirs.in_proj_weight[rows]
        yield f"{name}.{i}.bias", layer.bias, theirs.in_proj_bias[rows]
    yield from same(f"{name}.output", ours.output, theirs.out_proj)


def same(name: str, ours: Any, theirs: Any) -> Pairs:
    yield f"{name}.weight", ours.weight, theirs.weight
    yield f"{name}.bias", ours.bias, theirs.bias


def pairs(ours: Transformer, theirs: Any) -> Pairs:
    """Yield a name for messages, our weight and torch's weight, for every weight that both models have."""
    for i, (one, other) in enumerate(zip(ours.encoder.layers, theirs.encoder.layers, strict=True)):
        yield from same_attention(f"encoder.{i}.self", one.self_attention, other.self_attn)
        yield from same(f"encoder.{i}.inner", one.feed_forward.inner, other.linear1)
        yield from same(f"encoder.{i}.outer", one.feed_forward.outer, other.linear2)
        yield from same(f"encoder.{i}.norm1", one.attention_residual.norm, other.norm1)
        yield from same(f"encoder.{i}.norm2", one.feed_forward_residual.norm, other.norm2)
    for i, (mine, yours) in enumerate(zip(ours.decoder.layers, theirs.decoder.layers, strict=True)):
        yield from same_attention(f"decoder.{i}.self", mine.self_attention, yours.self_attn)
        yield from same_attention(f"decoder.{i}.memory", mine.memory_attention, yours.multihead_attn)
        yield from same(f"decoder.{i}.inner", mine.feed_forward.inner, yours.linear1)
        yield from same(f"decoder.{i}.outer", mine.feed_forward.outer, yours.linear2)
        yield from same(f"decoder.{i}.norm1", mine.self_residual.norm, yours.norm1)
        yield from same(f"decoder.{i}.norm2", mine.memory_residual.norm, yours.norm2)
        yield from same(f"decoder.{i}.norm3", mine.feed_forward_residual.norm, yours.norm3)
    for name in ("encoder", "decoder"):
        final = getattr(ours, name).final_norm
        if final is not None:
            yield from same(f"{name}.norm", final, getattr(theirs, name).norm)


def gradient_pairs(ours: Transformer, theirs: nn.Transformer) -> Pairs:
    """Yield the gradients of `pairs`; those of slices are taken from the gradient of the whole matrix."""
    gradients = torch_model("pre" if ours.encoder.final_norm is not None else "post", "relu")
    for parameter, other in zip(gradients.parameters(), theirs.parameters(), strict=True):
        assert other.grad is not None
        parameter.data = other.grad
    for name, weight, gradient in pairs(ours, gradients):
        assert weight.grad is not None, name
        yield name, weight.grad, gradient.detach()


def copied(placement: str, activation: str) -> tuple[Transformer, nn.Transformer]:
    """Return our model, and torch's with the same weights."""
    ours, theirs = build(placement, activation), torch_model(placement, activation)
    with torch.no_grad():
        count = 0
        for _, source, target in pairs(ours, theirs):
            target.copy_(source)
            count += target.numel()
    # All weights were copied, except the embedding, which only our model has.
    assert count == sum(parameter.numel() for parameter in theirs.parameters())
    assert count == sum(parameter.numel() for parameter in ours.parameters()) - V * D
    return ours, theirs


def batch(lengths: tuple[int, int]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return source, source mask, target and target mask of three sentences of different lengths."""
    S, T = lengths
    generator = torch.Generator().manual_seed(1)
    source = torch.randint(V, (3, S), generator=generator)
    target = torch.randint(V, (3, T), generator=generator)
    source_mask = torch.arange(S) < torch.tensor([[S], [S - 2], [1]])
    target_mask = torch.arange(T) < torch.tensor([[T], [1], [T - 2]])
    return source, source_mask, target, target_mask


def their_states(
    ours: Transformer, theirs: nn.Transformer, source: Tensor, source_mask: Tensor, target: Tensor, **masks: Tensor
) -> Tensor:
    """Return the states of torch's model for our embeddings; torch's masks are True where ours are False."""
    T = target.shape[1]
    states: Tensor = theirs(
        ours.source_embedding(source),
        ours.target_embedding(target),
        tgt_mask=torch.ones(T, T, dtype=torch.bool).triu(1),
        src_key_padding_mask=~source_mask,
        memory_key_padding_mask=~source_mask,
        **masks,
    )
    return states


@PLACEMENTS
@ACTIVATIONS
@LENGTHS
def test_outputs_and_gradients(placement: str, activation: str, lengths: tuple[int, int]) -> None:
    ours, theirs = copied(placement, activation)
    source, source_mask, target, target_mask = batch(lengths)

    actual = ours.decode(target, ours.encode(source, source_mask), target_mask)[target_mask]
    weighting = torch.randn(actual.shape, dtype=actual.dtype)
    (actual * weighting).sum().backward()
    embedding = ours.source_embedding.tokens.weight
    assert embedding.grad is not None
    found_by_embedding, embedding.grad = embedding.grad, None

    states = their_states(ours, theirs, source, source_mask, target, tgt_key_padding_mask=~target_mask)
    expected = states[target_mask] @ ours.output.weight.t()
    torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-9)
    (expected * weighting).sum().backward()
    torch.testing.assert_close(found_by_embedding, embedding.grad, rtol=1e-8, atol=1e-8)
    for name, one, other in gradient_pairs(ours, theirs):
        assert torch.allclose(one, other, rtol=1e-8, atol=1e-8), name


@PLACEMENTS
@ACTIVATIONS
def test_step_by_step(placement: str, activation: str) -> None:
    """Our steps with a cache against torch's decoder; both in evaluation mode, where torch uses its fast path."""
    ours, theirs = copied(placement, activation)
    ours.eval()
    theirs.eval()
    source, source_mask, target, _ = batch((7, 5))
    with torch.no_grad():
        expected = their_states(ours, theirs, source, source_mask, target) @ ours.output.weight.t()
        state = ours.start(ours.encode(source, source_mask))
        for t in range(target.shape[1]):
            logits, state = ours.step(target[:, t], state)
            torch.testing.assert_close(logits, expected[:, t], rtol=1e-9, atol=1e-9)
