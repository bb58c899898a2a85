"""The Universal Transformer against repeated layers of torch.nn, our Transformer, and adaptive halting in NumPy."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dragoman.attention import MultiHeadAttention
from dragoman.layers.halting import AdaptiveDepth
from dragoman.models.config.transformer import TransformerConfig
from dragoman.models.config.universal import UniversalConfig
from dragoman.models.transformer import build_transformer
from dragoman.models.universal import Universal, build_universal

D, HEADS, D_FF, V = 8, 2, 12, 11
SIZES: dict[str, Any] = {"source_vocabulary": V, "target_vocabulary": V, "d_model": D, "heads": HEADS, "d_ff": D_FF}
THRESHOLD = 0.05
PLACEMENTS = pytest.mark.parametrize("placement", ["post", "pre"])

Apply = Callable[[Tensor, int], Tensor]


def build(**changes: Any) -> Universal:
    """Return a model in float64, without dropout, with random noise added to all weights."""
    torch.manual_seed(3)
    settings = {**SIZES, "dropout": 0.0, "halting_threshold": THRESHOLD, **changes}
    model = build_universal(UniversalConfig(**settings)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def batch() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return source, source mask, target and target mask of three sentences of different lengths."""
    generator = torch.Generator().manual_seed(1)
    source = torch.randint(V, (3, 7), generator=generator)
    target = torch.randint(V, (3, 6), generator=generator)
    return (
        source,
        torch.arange(7) < torch.tensor([[7], [4], [1]]),
        target,
        torch.arange(6) < torch.tensor([[6], [2], [5]]),
    )


# torch.nn's layers with our weights


def copied_layers(model: Universal, placement: str) -> tuple[nn.TransformerEncoderLayer, nn.TransformerDecoderLayer]:
    settings: dict[str, Any] = {
        "d_model": D,
        "nhead": HEADS,
        "dim_feedforward": D_FF,
        "dropout": 0.0,
        "layer_norm_eps": 1e-6,
        "batch_first": True,
        "norm_first": placement == "pre",
        "dtype": torch.float64,
    }
    encoder, decoder = nn.TransformerEncoderLayer(**settings), nn.TransformerDecoderLayer(**settings)

    def copy_attention(theirs: nn.MultiheadAttention, ours: MultiHeadAttention) -> None:
        theirs.in_proj_weight.copy_(torch.cat((ours.query.weight, ours.key.weight, ours.value.weight)))
        theirs.in_proj_bias.zero_()
        theirs.out_proj.weight.copy_(ours.output.weight)
        theirs.out_proj.bias.zero_()

    def copy(theirs: Any, ours: Any) -> None:
        theirs.load_state_dict(ours.state_dict())

    ours_encoder, ours_decoder = model.encoder.block, model.decoder.block
    with torch.no_grad():
        copy_attention(encoder.self_attn, ours_encoder.self_attention)
        copy_attention(decoder.self_attn, ours_decoder.self_attention)
        copy_attention(decoder.multihead_attn, ours_decoder.memory_attention)
    copy(encoder.norm1, ours_encoder.attention_residual.norm)
    copy(encoder.norm2, ours_encoder.feed_forward_residual.norm)
    copy(decoder.norm1, ours_decoder.self_residual.norm)
    copy(decoder.norm2, ours_decoder.memory_residual.norm)
    copy(decoder.norm3, ours_decoder.feed_forward_residual.norm)
    for theirs, ours in ((encoder, ours_encoder), (decoder, ours_decoder)):
        copy(theirs.linear1, ours.feed_forward.inner)
        copy(theirs.linear2, ours.feed_forward.outer)
    return encoder, decoder


def coordinate_embeddings(positions: int, step: int, base: float = 10_000.0) -> Tensor:
    """Compute P^t of Dehghani et al. (2018), section 2.1, one number at a time."""
    table = np.zeros((positions, D))
    for i in range(positions):
        for j in range(D // 2):
            wavelength = base ** (2 * j / D)
            table[i, 2 * j] = math.sin(i / wavelength) + math.sin(step / wavelength)
            table[i, 2 * j + 1] = math.cos(i / wavelength) + math.cos(step / wavelength)
    return torch.from_numpy(table)


@pytest.mark.parametrize("base", [10_000.0, 50.0])
def test_embeddings_of_positions_and_steps(base: float) -> None:
    model = build(position_base=base, decoder_steps=4)
    for coordinates in (model.encoder.coordinates, model.decoder.coordinates):
        x = torch.zeros(1, 300, D)
        actual = coordinates(x, coordinates.positions(x, 0), 4)
        torch.testing.assert_close(actual[0].double(), coordinate_embeddings(300, 4, base), rtol=0, atol=1e-5)


@dataclass
class Expected:
    """Expected results of a model: states [B, T, D], and steps and ponder cost of source [B, S] and target [B, T]."""

    states: Tensor
    source_steps: np.ndarray[Any, Any]
    target_steps: np.ndarray[Any, Any]
    source_ponder: np.ndarray[Any, Any]
    target_ponder: np.ndarray[Any, Any]


# (initial state, application of the block) -> (output, N, ρ)
Depth = Callable[[Tensor, Apply], tuple[Tensor, np.ndarray[Any, Any], np.ndarray[Any, Any]]]


def run(
    model: Universal, placement: str, depths: tuple[Depth, Depth], tokens: tuple[Tensor, Tensor, Tensor]
) -> Expected:
    """Apply torch.nn's layers repeatedly, as the depths of encoder and decoder specify."""
    source, source_mask, target = tokens
    encoder, decoder = copied_layers(model, placement)
    T = target.shape[1]
    causal = torch.ones(T, T, dtype=torch.bool).triu(1)

    def encode(state: Tensor, step: int) -> Tensor:
        return encoder(state + coordinate_embeddings(source.shape[1], step), src_key_padding_mask=~source_mask)

    def norm(output: Tensor, final: nn.Module | None) -> Tensor:
        return output if final is None else final(output)

    x = model.source_embedding.tokens.weight[source] * math.sqrt(D)
    memory, source_steps, source_ponder = depths[0](x, encode)
    memory = norm(memory, model.encoder.final_norm)

    def decode(state: Tensor, step: int) -> Tensor:
        y = state + coordinate_embeddings(T, step)
        return decoder(y, memory, tgt_mask=causal, memory_key_padding_mask=~source_mask)

    y = model.target_embedding.tokens.weight[target] * math.sqrt(D)
    states, target_steps, target_ponder = depths[1](y, decode)
    states = norm(states, model.decoder.final_norm)
    return Expected(states, source_steps, target_steps, source_ponder, target_ponder)


def fixed(steps: int) -> Depth:
    def depth(x: Tensor, apply: Apply) -> tuple[Tensor, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        for step in range(1, steps + 1):
            x = apply(x, step)
        return x, np.full(x.shape[:2], steps), np.zeros(x.shape[:2])

    return depth


@PLACEMENTS
@pytest.mark.parametrize("steps", [(1, 1), (3, 2)])
def test_fixed_depth_equals_torchs_layer_applied_repeatedly(placement: str, steps: tuple[int, int]) -> None:
    model = build(norm_placement=placement, encoder_steps=steps[0], decoder_steps=steps[1])
    source, source_mask, target, target_mask = batch()
    expected = run(model, placement, (fixed(steps[0]), fixed(steps[1])), (source, source_mask, target))
    decoded = model(source, source_mask, target, target_mask)
    torch.testing.assert_close(decoded.states[target_mask], expected.states[target_mask], rtol=1e-6, atol=1e-6)
    assert decoded.cost == 0

    # The gradient of the embedding is a sum over all steps.
    weighting = torch.randn(decoded.states[target_mask].shape, dtype=torch.float64)
    embedding = model.source_embedding.tokens.weight
    gradients = [
        torch.autograd.grad((states[target_mask] * weighting).sum(), embedding)[0]
        for states in (decoded.states, expected.states)
    ]
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-5, atol=1e-5)


@PLACEMENTS
@pytest.mark.parametrize("halting", ["fixed", "adaptive"])
def test_one_step_equals_a_transformer_of_one_layer(placement: Any, halting: str) -> None:
    """Without the embedding of the step, which the Transformer does not have, the results are bitwise equal."""
    universal = build(norm_placement=placement, halting=halting, encoder_steps=1, decoder_steps=1)
    config = TransformerConfig(**SIZES, dropout=0.0, encoder_layers=1, decoder_layers=1, norm_placement=placement)
    transformer = build_transformer(config).double()
    weights = {
        name.replace(".block.", ".layers.0."): tensor
        for name, tensor in universal.state_dict().items()
        if ".halting." not in name
    }
    transformer.load_state_dict(weights)
    for part in (universal.encoder, universal.decoder):
        part.coordinates.steps.zero_()
    source, source_mask, target, target_mask = batch()
    expected = transformer.decode(target, transformer.encode(source, source_mask), target_mask)
    actual = universal.decode(target, universal.encode(source, source_mask), target_mask)
    assert actual[target_mask].equal(expected[target_mask])


# Adaptive computation time, position by position


def number_of_steps(h: list[float], maximum: int) -> int | None:
    """Return N = min{n : h^1 + ... + h^n ≥ 1 - ε}, but at most `maximum`; None if the position has not halted."""
    for n in range(1, len(h) + 1):
        if sum(h[:n]) >= 1 - THRESHOLD or n == maximum:
            return n
    return None


def adaptive(depth: AdaptiveDepth) -> Depth:
    """Store all states and halting probabilities, and evaluate Graves' equations after the last step."""
    weight, bias = depth.halting.weight.detach().numpy()[0], depth.halting.bias.item()

    def run_all_steps(x: Tensor, apply: Apply) -> tuple[Tensor, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        positions = list(np.ndindex(*x.shape[:2]))
        history: dict[Any, list[Any]] = {position: [] for position in positions}
        h: dict[Any, list[float]] = {position: [] for position in positions}
        state = x.numpy().copy()
        for step in range(1, depth.steps + 1):
            applied = apply(torch.from_numpy(state), step).numpy()
            state = state.copy()
            for position in positions:
                if number_of_steps(h[position], depth.steps) is None:
                    state[position] = applied[position]
                    history[position].append(applied[position])
                    h[position].append(1 / (1 + math.exp(-(weight @ applied[position] + bias))))
        output, steps, ponder = np.zeros_like(state), np.zeros(x.shape[:2]), np.zeros(x.shape[:2])
        for position in positions:
            N = number_of_steps(h[position], depth.steps)
            assert N is not None
            R = 1 - sum(h[position][: N - 1])
            p = [*h[position][: N - 1], R]
            assert sum(p) == pytest.approx(1)
            output[position] = sum(p[n] * history[position][n] for n in range(N))
            steps[position], ponder[position] = N, N + R
        return torch.from_numpy(output), steps, ponder

    return run_all_steps


@torch.no_grad()
@PLACEMENTS
def test_adaptive_depth_follows_graves_equations(placement: str) -> None:
    """Outputs, steps and cost of the whole model, against the equations for each position."""
    source, source_mask, target, target_mask = batch()
    numbers_of_steps: dict[str, set[float]] = {"encoder steps": set(), "decoder steps": set()}
    for seed in range(6):
        model = build(
            norm_placement=placement, halting="adaptive", encoder_steps=5, decoder_steps=4, ponder_weight=0.125
        ).eval()
        torch.manual_seed(seed)
        depths = [with_varied_halting(part.depth) for part in (model.encoder, model.decoder)]
        expected = run(model, placement, (adaptive(depths[0]), adaptive(depths[1])), (source, source_mask, target))

        decoded = model(source, source_mask, target, target_mask)
        torch.testing.assert_close(decoded.states[target_mask], expected.states[target_mask], rtol=1e-6, atol=1e-6)
        statistics = model.token_statistics(source, source_mask, target, target_mask)
        assert statistics["encoder steps"].tolist() == expected.source_steps[source_mask.numpy()].tolist()
        assert statistics["decoder steps"].tolist() == expected.target_steps[target_mask.numpy()].tolist()
        ponder = expected.source_ponder[source_mask.numpy()].sum() + expected.target_ponder[target_mask.numpy()].sum()
        assert float(decoded.cost) == pytest.approx(0.125 * ponder, rel=1e-6)
        for name, steps in statistics.items():
            numbers_of_steps[name].update(steps.tolist())

        state = model.start(model.encode(source, source_mask))
        for t in range(target.shape[1]):
            logits, state = model.step(target[:, t], state)
            logits_expected = expected.states[:, t] @ model.output.weight.t()
            torch.testing.assert_close(logits, logits_expected, rtol=1e-6, atol=1e-6)
    # All numbers of steps occur, from one step to the maximum.
    assert numbers_of_steps == {"encoder steps": {1, 2, 3, 4, 5}, "decoder steps": {1, 2, 3, 4}}


def with_varied_halting(depth: nn.Module) -> AdaptiveDepth:
    """Set the halting unit so that positions take different numbers of steps."""
    assert isinstance(depth, AdaptiveDepth)
    nn.init.normal_(depth.halting.weight, std=1.5)
    nn.init.constant_(depth.halting.bias, -1.0)
    return depth
