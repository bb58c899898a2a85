"""The Universal Transformer against torch.nn's layers applied again and again, our Transformer, and ACT in NumPy."""

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


def build(**choices: Any) -> Universal:
    """In float64, without dropout, with every weight drawn at random."""
    torch.manual_seed(3)
    settings = {**SIZES, "dropout": 0.0, "halting_threshold": THRESHOLD, **choices}
    model = build_universal(UniversalConfig(**settings)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def batch() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Source, target and which of them is real: three rows of different lengths."""
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


def signals(positions: int, step: int) -> Tensor:
    """P^t as the paper writes it, one number at a time."""
    table = np.zeros((positions, D))
    for i in range(positions):
        for j in range(D // 2):
            wavelength = 10_000 ** (2 * j / D)
            table[i, 2 * j] = math.sin(i / wavelength) + math.sin(step / wavelength)
            table[i, 2 * j + 1] = math.cos(i / wavelength) + math.cos(step / wavelength)
    # As the model does: the table is rounded to float32.
    return torch.from_numpy(table)


@dataclass
class Expected:
    """What the whole model should give: states, and the ponder [B, T] of source and target."""

    states: Tensor
    source_steps: np.ndarray[Any, Any]
    target_steps: np.ndarray[Any, Any]
    source_ponder: np.ndarray[Any, Any]
    target_ponder: np.ndarray[Any, Any]


# (state before, application) -> (output, N, ρ)
Depth = Callable[[Tensor, Apply], tuple[Tensor, np.ndarray[Any, Any], np.ndarray[Any, Any]]]


def run(
    model: Universal, placement: str, depths: tuple[Depth, Depth], tokens: tuple[Tensor, Tensor, Tensor]
) -> Expected:
    """torch.nn's layers under `depths`, one of the encoder and one of the decoder."""
    source, source_mask, target = tokens
    encoder, decoder = copied_layers(model, placement)
    T = target.shape[1]
    causal = torch.ones(T, T, dtype=torch.bool).triu(1)

    def read(state: Tensor, step: int) -> Tensor:
        return encoder(state + signals(source.shape[1], step), src_key_padding_mask=~source_mask)

    def norm(output: Tensor, final: nn.Module | None) -> Tensor:
        return output if final is None else final(output)

    x = model.source_embedding.tokens.weight[source] * math.sqrt(D)
    memory, source_steps, source_ponder = depths[0](x, read)
    memory = norm(memory, model.encoder.final_norm)

    def write(state: Tensor, step: int) -> Tensor:
        return decoder(state + signals(T, step), memory, tgt_mask=causal, memory_key_padding_mask=~source_mask)

    y = model.target_embedding.tokens.weight[target] * math.sqrt(D)
    states, target_steps, target_ponder = depths[1](y, write)
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
def test_fixed_depth_is_torchs_layer_again_and_again(placement: str, steps: tuple[int, int]) -> None:
    model = build(norm_placement=placement, encoder_steps=steps[0], decoder_steps=steps[1])
    source, source_mask, target, target_mask = batch()
    expected = run(model, placement, (fixed(steps[0]), fixed(steps[1])), (source, source_mask, target))
    decoded = model(source, source_mask, target, target_mask)
    torch.testing.assert_close(decoded.states[target_mask], expected.states[target_mask], rtol=1e-6, atol=1e-6)
    assert decoded.cost == 0

    # The gradient of what all steps share is the sum over the steps.
    weighting = torch.randn(decoded.states[target_mask].shape, dtype=torch.float64)
    embedding = model.source_embedding.tokens.weight
    gradients = [
        torch.autograd.grad((states[target_mask] * weighting).sum(), embedding)[0]
        for states in (decoded.states, expected.states)
    ]
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-5, atol=1e-5)


@PLACEMENTS
@pytest.mark.parametrize("halting", ["fixed", "adaptive"])
def test_one_step_is_a_transformer_of_one_layer(placement: Any, halting: str) -> None:
    """Without the signal of the step, which the Transformer does not have; to the last bit."""
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
    found = universal.decode(target, universal.encode(source, source_mask), target_mask)
    assert found[target_mask].equal(expected[target_mask])


# Adaptive computation time, one position after another


def steps_taken(h: list[float], most: int) -> int | None:
    """N = min{n : h^1 + ... + h^n ≥ 1 - ε}, but at most `most`; None as long as there is no such n."""
    for n in range(1, len(h) + 1):
        if sum(h[:n]) >= 1 - THRESHOLD or n == most:
            return n
    return None


def graves(depth: AdaptiveDepth) -> Depth:
    """Every position keeps all its states and probabilities; what they mean is decided when all steps are over."""
    weight, bias = depth.halting.weight.detach().numpy()[0], depth.halting.bias.item()

    def run_all_steps(x: Tensor, apply: Apply) -> tuple[Tensor, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        places = list(np.ndindex(*x.shape[:2]))
        history: dict[Any, list[Any]] = {place: [] for place in places}
        h: dict[Any, list[float]] = {place: [] for place in places}
        state = x.numpy().copy()
        for step in range(1, depth.steps + 1):
            applied = apply(torch.from_numpy(state), step).numpy()
            state = state.copy()
            for place in places:
                if steps_taken(h[place], depth.steps) is None:
                    state[place] = applied[place]
                    history[place].append(applied[place])
                    h[place].append(1 / (1 + math.exp(-(weight @ applied[place] + bias))))
        output, steps, ponder = np.zeros_like(state), np.zeros(x.shape[:2]), np.zeros(x.shape[:2])
        for place in places:
            N = steps_taken(h[place], depth.steps)
            assert N is not None
            R = 1 - sum(h[place][: N - 1])
            p = [*h[place][: N - 1], R]
            assert sum(p) == pytest.approx(1)
            output[place] = sum(p[n] * history[place][n] for n in range(N))
            steps[place], ponder[place] = N, N + R
        return torch.from_numpy(output), steps, ponder

    return run_all_steps


@torch.no_grad()
@PLACEMENTS
def test_adaptive_depth_is_graves_equations(placement: str) -> None:
    """Outputs, steps and cost of the whole model, against all steps of every position by itself."""
    source, source_mask, target, target_mask = batch()
    taken: dict[str, set[float]] = {"encoder steps": set(), "decoder steps": set()}
    for seed in range(6):
        model = build(
            norm_placement=placement, halting="adaptive", encoder_steps=5, decoder_steps=4, ponder_weight=0.125
        ).eval()
        torch.manual_seed(seed)
        depths = [keen(part.depth) for part in (model.encoder, model.decoder)]
        expected = run(model, placement, (graves(depths[0]), graves(depths[1])), (source, source_mask, target))

        decoded = model(source, source_mask, target, target_mask)
        torch.testing.assert_close(decoded.states[target_mask], expected.states[target_mask], rtol=1e-6, atol=1e-6)
        figures = model.token_statistics(source, source_mask, target, target_mask)
        assert figures["encoder steps"].tolist() == expected.source_steps[source_mask.numpy()].tolist()
        assert figures["decoder steps"].tolist() == expected.target_steps[target_mask.numpy()].tolist()
        ponder = expected.source_ponder[source_mask.numpy()].sum() + expected.target_ponder[target_mask.numpy()].sum()
        assert float(decoded.cost) == pytest.approx(0.125 * ponder, rel=1e-6)
        for name, steps in figures.items():
            taken[name].update(steps.tolist())

        state = model.start(model.encode(source, source_mask))
        for t in range(target.shape[1]):
            logits, state = model.step(target[:, t], state)
            logits_expected = expected.states[:, t] @ model.output.weight.t()
            torch.testing.assert_close(logits, logits_expected, rtol=1e-6, atol=1e-6)
    # The cases are worth their name: from those that halted at once to those that were made to.
    assert taken == {"encoder steps": {1, 2, 3, 4, 5}, "decoder steps": {1, 2, 3, 4}}


def keen(depth: nn.Module) -> AdaptiveDepth:
    """With a halting unit so keen that positions take any number of steps."""
    assert isinstance(depth, AdaptiveDepth)
    nn.init.normal_(depth.halting.weight, std=1.5)
    nn.init.constant_(depth.halting.bias, -1.0)
    return depth
