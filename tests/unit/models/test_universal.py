"""The Universal Transformer: sizes, coordinate embeddings, halting, ponder cost, gradients and training."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dragoman.layers.coordinate_embeddings import CoordinateEmbeddings
from dragoman.layers.halting import AdaptiveDepth, DepthOutput, FixedDepth
from dragoman.models.config.universal import UniversalConfig
from dragoman.models.universal import Universal, UniversalState, build_universal
from tests.support.variants.universal import VARIANTS

EVERY_VARIANT = pytest.mark.parametrize("config", VARIANTS.values(), ids=VARIANTS)


def build(**changes: Any) -> Universal:
    """Return a model with a few thousand weights."""
    settings: dict[str, Any] = {
        "source_vocabulary": 20,
        "target_vocabulary": 20,
        "encoder_steps": 4,
        "decoder_steps": 3,
        "d_model": 16,
        "heads": 2,
        "d_ff": 24,
    }
    torch.manual_seed(0)
    return build_universal(UniversalConfig(**{**settings, **changes}))


def parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def batch(rows: int = 3, length: int = 6, vocabulary: int = 17) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return source, source mask, target and target mask.

    Source sentences have `length`, `length` - 1, ... tokens, and targets one more.
    """
    generator = torch.Generator().manual_seed(1)
    source = torch.randint(vocabulary, (rows, length), generator=generator)
    target = torch.randint(vocabulary, (rows, length + 1), generator=generator)
    lengths = length - torch.arange(rows).unsqueeze(1)
    return source, torch.arange(length) < lengths, target, torch.arange(length + 1) < lengths + 1


def halt_with(model: Universal, probability: float) -> None:
    """Set the halting probability of every position at every step."""
    for part in (model.encoder, model.decoder):
        assert isinstance(part.depth, AdaptiveDepth)
        nn.init.zeros_(part.depth.halting.weight)
        nn.init.constant_(part.depth.halting.bias, math.log(probability / (1 - probability)))


# Size and settings


def test_count_by_hand() -> None:
    attention = 4 * 16 * 16
    feed_forward = 16 * 24 + 24 + 24 * 16 + 16
    norm = 2 * 16
    blocks = (attention + feed_forward + 2 * norm) + (2 * attention + feed_forward + 3 * norm)
    halting = 2 * (16 + 1)
    assert parameters(build()) == 20 * 16 + blocks
    assert parameters(build(halting="adaptive")) == 20 * 16 + blocks + halting
    assert parameters(build(norm_placement="pre")) == 20 * 16 + blocks + 2 * norm
    assert parameters(build(norm="rms")) == 20 * 16 + blocks - 5 * 16
    assert parameters(build(activation="swiglu")) == 20 * 16 + blocks + 2 * (3 * 16 * 24 - feed_forward)
    assert parameters(build(tied_embeddings="two-way")) == 2 * 20 * 16 + blocks
    assert parameters(build(tied_embeddings="none", target_vocabulary=30)) == (20 + 30 + 30) * 16 + blocks


@pytest.mark.parametrize("halting", ["fixed", "adaptive"])
def test_steps_share_their_weights(halting: str) -> None:
    """A model with more steps has the same parameters as one with fewer, and can load its weights."""
    few = build(halting=halting, encoder_steps=1, decoder_steps=1)
    many = build(halting=halting, encoder_steps=9, decoder_steps=5)
    assert parameters(few) == parameters(many)
    many.load_state_dict(few.state_dict())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"heads": 3}, "3 does not divide 16"),
        ({"d_model": 15, "heads": 3}, "even"),
        ({"encoder_steps": 0}, "encoder_steps must be at least 1, not 0"),
        ({"decoder_steps": -1}, "decoder_steps"),
        ({"halting_threshold": 0.0}, "halting_threshold must be between 0 and 1, not 0.0"),
        ({"halting_threshold": 1.0}, "halting_threshold"),
        ({"halting_threshold": math.nan}, "halting_threshold"),
        ({"ponder_weight": -0.1}, "ponder_weight must be finite and at least 0, not -0.1"),
        ({"ponder_weight": math.nan}, "ponder_weight"),
        ({"ponder_weight": math.inf}, "ponder_weight"),
        ({"random_positions": -1}, "random_positions"),
    ],
)
def test_invalid_settings(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(**changes)


# Coordinate embeddings


def test_coordinate_embeddings_by_hand() -> None:
    """Position 5 at step 3."""
    coordinates = CoordinateEmbeddings(6, steps=4)
    x = torch.zeros(2, 3, 6)
    actual = coordinates(x, coordinates.positions(x, offset=4), 3)[1, 1]
    expected = [f(5 / 10_000 ** (j / 3)) + f(3 / 10_000 ** (j / 3)) for j in range(3) for f in (math.sin, math.cos)]
    torch.testing.assert_close(actual, torch.tensor(expected))


def test_every_step_adds_the_coordinate_embeddings() -> None:
    """The input of the block is its previous output plus the embeddings of position and step."""
    model = build(dropout=0.0).eval()
    calls: list[tuple[Tensor, Tensor]] = []
    model.encoder.block.register_forward_hook(lambda module, inputs, output: calls.append((inputs[0], output)))
    tokens = torch.tensor([[5, 6, 7]])
    model.encode(tokens, torch.ones_like(tokens, dtype=torch.bool))
    assert len(calls) == 4
    state = 4 * model.source_embedding.tokens.weight[tokens[0]]
    coordinates = model.encoder.coordinates
    for step, (x, output) in enumerate(calls, start=1):
        # Packed rows [N, D], tokens first.
        expected = coordinates(state, coordinates.positions(state.unsqueeze(0), 0)[0], step)
        torch.testing.assert_close(x[:3], expected)
        state = output[:3]


# Halting


def depth_of(steps: int = 5, threshold: float = 0.01, bias: float = 0.0) -> AdaptiveDepth:
    torch.manual_seed(0)
    depth = AdaptiveDepth(3, steps, threshold)
    nn.init.normal_(depth.halting.weight, std=2.0)
    nn.init.constant_(depth.halting.bias, bias)
    return depth


@torch.no_grad()
@pytest.mark.parametrize("bias", [-6.0, -1.0, 0.0, 1.0, 6.0])
@pytest.mark.parametrize("threshold", [1e-6, 0.01, 0.5])
def test_the_weights_of_a_position_sum_to_one(bias: float, threshold: float) -> None:
    """A feature that never changes is unchanged in the weighted mean of the states."""
    depth = depth_of(bias=bias, threshold=threshold)
    x = torch.cat((torch.randn(8, 9, 2), torch.full((8, 9, 1), 7.0)), dim=-1)

    def apply(state: Tensor, step: int) -> Tensor:
        return torch.cat((torch.randn(8, 9, 2), state[..., 2:]), dim=-1)

    pondered = depth(x, apply)
    torch.testing.assert_close(pondered.output[..., 2], torch.full((8, 9), 7.0))
    assert pondered.steps.min() >= 1
    assert pondered.steps.max() <= 5
    remainder = pondered.ponder - pondered.steps
    assert remainder.min() >= 0
    assert remainder.max() <= 1


@pytest.mark.parametrize(
    ("probability", "most", "steps", "remainder"),
    [(0.995, 5, 1, 1.0), (0.6, 5, 2, 0.4), (0.3, 5, 4, 0.1), (0.3, 3, 3, 0.4), (0.3, 1, 1, 1.0), (0.001, 5, 5, 0.996)],
)
def test_ponder_cost_by_hand(probability: float, most: int, steps: int, remainder: float) -> None:
    """N, R and τ(N + R), summed over the 15 real tokens of the source and the 18 of the target."""
    model = build(halting="adaptive", encoder_steps=most, decoder_steps=most, ponder_weight=0.25)
    halt_with(model, probability)
    tokens = batch()
    cost = model(*tokens).cost
    assert cost.item() == pytest.approx(0.25 * (15 + 18) * (steps + remainder), rel=1e-5)
    actual = model.token_statistics(*tokens)
    assert actual["encoder steps"].equal(torch.full((15,), float(steps)))
    assert actual["decoder steps"].equal(torch.full((18,), float(steps)))


def test_the_output_is_the_weighted_mean_of_the_states() -> None:
    """With h = 0.4 the weights are 0.4, 0.4 and the remainder 0.2."""
    depth = depth_of()
    nn.init.zeros_(depth.halting.weight)
    nn.init.constant_(depth.halting.bias, math.log(0.4 / 0.6))
    x = torch.randn(2, 4, 3)
    states = torch.randn(5, 2, 4, 3)
    pondered = depth(x, lambda state, step: states[step - 1])
    expected = 0.4 * states[0] + 0.4 * states[1] + 0.2 * states[2]
    torch.testing.assert_close(pondered.output, expected)
    assert pondered.state.equal(states[2])


def test_a_halted_position_is_copied_while_others_continue() -> None:
    """Halting depends on the first feature: position 0 halts at step 1, position 1 at step 3, and 2 is padding."""
    depth = AdaptiveDepth(2, 6, 0.01)
    with torch.no_grad():
        depth.halting.weight.copy_(torch.tensor([[1.0, 0.0]]))
        depth.halting.bias.zero_()
    inputs: list[Tensor] = []

    def apply(state: Tensor, step: int) -> Tensor:
        inputs.append(state)
        h = torch.tensor([9.0, -1.0, 0.0]) if step < 3 else torch.tensor([0.0, 9.0, 0.0])
        # [3] and [3] -> [3, 2] -> [1, 3, 2]
        return torch.stack((h, torch.full((3,), float(step))), dim=-1).unsqueeze(0)

    x = torch.zeros(1, 3, 2)
    pondered = depth(x, apply, torch.tensor([[True, True, False]]))
    # The second feature is the step that computed a state. There is no fourth step, because all positions have halted.
    assert [state[0, :, 1].tolist() for state in inputs] == [[0, 0, 0], [1, 1, 0], [1, 2, 0]]
    assert pondered.state[0, :, 1].tolist() == [1, 3, 0]
    assert pondered.steps.tolist() == [[1, 3, 0]]
    # R = 1 - 2 σ(-1)
    remainder = 1 - 2 / (1 + math.e)
    torch.testing.assert_close(pondered.ponder, torch.tensor([[2, 3 + remainder, 0]]))


def test_the_block_is_not_applied_after_all_positions_have_halted() -> None:
    """If all positions halt at step 1, the block is applied once; the caches of all steps are extended nevertheless."""
    model = build(halting="adaptive", encoder_steps=6, decoder_steps=5).eval()
    halt_with(model, 0.999)
    calls: list[nn.Module] = []
    model.encoder.block.register_forward_hook(lambda module, inputs, output: calls.append(module))
    model.decoder.block.register_forward_hook(lambda module, inputs, output: calls.append(module))
    source, source_mask, target, target_mask = batch()
    memory = model.encode(source, source_mask)
    model.decode(target, memory, target_mask)
    assert calls == [model.encoder.block, model.decoder.block]
    _, state = model.step(target[:, 0], model.start(memory))
    assert [cache.past.key.shape[2] for cache in state.steps] == [1] * 5


def test_the_keys_of_the_source_are_stored_once() -> None:
    """All steps share the keys and values of the source, also after reordering."""
    model = build(decoder_steps=5).eval()
    source, source_mask, target, _ = batch()

    def shared(state: UniversalState) -> bool:
        return len({id(cache.memory) for cache in state.steps}) == 1

    state = model.start(model.encode(source, source_mask))
    assert shared(state)
    _, state = model.step(target[:, 0], state)
    assert shared(state)
    assert shared(state.reorder(torch.tensor([0, 0, 2])))


def test_halting_starts_with_two_steps() -> None:
    """The bias is 1, as in tensor2tensor: in an untrained model nearly all positions take two or three steps."""
    model = build(halting="adaptive", d_model=64, encoder_steps=8, decoder_steps=8)
    for part in (model.encoder, model.decoder):
        assert isinstance(part.depth, AdaptiveDepth)
        assert part.depth.halting.bias.tolist() == [1.0]
        assert part.depth.halting.weight.abs().max() > 0
    actual = torch.cat(list(model.token_statistics(*batch(rows=5, length=20)).values()))
    assert 1.2 < actual.mean() < 3.0


def test_fixed_depth() -> None:
    """Every real token takes all steps, and the ponder cost is 0."""
    model = build(halting="fixed", encoder_steps=4, decoder_steps=3, ponder_weight=1.0)
    tokens = batch()
    actual = model.token_statistics(*tokens)
    assert model(*tokens).cost == 0
    assert actual["encoder steps"].equal(torch.full((15,), 4.0))
    assert actual["decoder steps"].equal(torch.full((18,), 3.0))
    x = torch.randn(2, 3, 4)
    pondered = FixedDepth(3)(x, lambda state, step: state + step)
    torch.testing.assert_close(pondered.output, x + 6)
    assert pondered.steps.equal(torch.full((2, 3), 3.0))


@torch.no_grad()
def test_padding_has_no_ponder_cost() -> None:
    """Token ids and amount of padding affect neither the cost nor the number of steps."""
    model = build(halting="adaptive", ponder_weight=1.0).double().eval()
    source, source_mask, target, target_mask = batch()
    expected = model(source, source_mask, target, target_mask).cost
    steps = model.token_statistics(source, source_mask, target, target_mask)
    source, target = torch.where(source_mask, source, 19), torch.where(target_mask, target, 18)
    wider = F.pad(source, (0, 5)), F.pad(source_mask, (0, 5)), F.pad(target, (0, 3)), F.pad(target_mask, (0, 3))
    actual = model(*wider).cost
    torch.testing.assert_close(actual, expected)
    for name, values in model.token_statistics(*wider).items():
        assert values.equal(steps[name])


# Gradients


@pytest.mark.parametrize("name", ["adaptive", "swiglu", "fixed"])
def test_gradients_equal_finite_differences(name: str) -> None:
    """Gradients of logits and cost for every weight, along a random direction, in float64."""
    torch.manual_seed(5)
    config = replace(VARIANTS[name], d_model=4, heads=1, d_ff=6, dropout=0.0)
    if config.activation == "relu":
        # ReLU is not differentiable at 0.
        config = replace(config, activation="gelu")
    model = build_universal(config).double()
    source, source_mask, target, target_mask = batch(rows=2, length=3)

    def objectives() -> Tensor:
        decoded = model(source, source_mask, target, target_mask)
        return torch.stack((model.project(decoded.states)[target_mask].square().sum(), decoded.cost))

    weights = list(model.parameters())
    gradients = [torch.zeros(2, *weight.shape, dtype=torch.float64) for weight in weights]
    for i, objective in enumerate(objectives()):
        for weight, gradient in zip(weights, gradients, strict=True):
            weight.grad = gradient[i]
        objective.backward(retain_graph=True)
    for weight, gradient in zip(weights, gradients, strict=True):
        direction, start = torch.randn_like(weight), weight.detach().clone()
        with torch.no_grad():
            above = (weight.copy_(start + 1e-6 * direction), objectives())[1]
            below = (weight.copy_(start - 1e-6 * direction), objectives())[1]
            weight.copy_(start)
        # [2, ...] -> [2]
        actual = (gradient * direction).flatten(1).sum(dim=1)
        torch.testing.assert_close(actual, (above - below) / 2e-6, rtol=1e-5, atol=1e-6)
    # The ponder cost N + R has a gradient through R, but not through N.
    assert any(gradient[1].any() for gradient in gradients) == (config.halting == "adaptive")


# Precision


def test_halting_is_in_single_precision_under_autocast() -> None:
    depth = depth_of()
    state = torch.randn(2, 3, 3).bfloat16()
    expected = (state.float() @ depth.halting.weight[0] + depth.halting.bias).sigmoid()
    with torch.autocast("cpu", torch.bfloat16):
        actual = depth.probability(state)
        result: DepthOutput = depth(state, lambda y, step: y + step)
    assert actual.dtype == torch.float32
    torch.testing.assert_close(actual, expected)
    assert result.ponder.dtype == torch.float32
    assert result.output.dtype == torch.bfloat16


# Random positions


def offsets(model: Universal, seed: int) -> list[int]:
    """Return the positions at which source and target of a training batch start."""
    starts: list[int] = []
    for coordinates in (model.encoder.coordinates, model.decoder.coordinates):
        coordinates.sinusoidal.register_forward_hook(lambda module, inputs, output: starts.append(inputs[1]))
    torch.manual_seed(seed)
    model(*batch())
    return starts


def test_random_positions_are_drawn_once_for_both_sides() -> None:
    drawn = [offsets(build(dropout=0.0, random_positions=100), seed) for seed in range(20)]
    assert all(len(pair) == 2 for pair in drawn)
    assert all(0 <= offset < 100 for pair in drawn for offset in pair)
    assert len({pair[0] for pair in drawn}) > 10
    assert all(pair[0] == pair[1] for pair in drawn)
    assert drawn[3] == offsets(build(dropout=0.0, random_positions=100), 3)


def test_random_positions_are_for_training_only() -> None:
    model, plain = build(dropout=0.0, random_positions=100), build(dropout=0.0)
    torch.manual_seed(1)
    first = model(*batch()).rows
    assert not torch.allclose(model(*batch()).rows, first, atol=1e-3)
    torch.manual_seed(1)
    assert model(*batch()).rows.equal(first)
    expected = plain(*batch()).rows
    assert model.eval()(*batch()).rows.equal(expected)
    assert model(*batch()).rows.equal(expected)
    # A model without random positions does not draw random numbers.
    before = torch.get_rng_state()
    plain(*batch())
    assert torch.get_rng_state().equal(before)


def test_random_positions_beyond_the_initial_table() -> None:
    """The initial table has 256 positions."""
    assert build(random_positions=100_000)(*batch()).rows.isfinite().all()


# Learning


@pytest.mark.parametrize(("halting", "task"), [("fixed", "copy"), ("adaptive", "reverse")])
def test_it_learns_to_copy_and_to_reverse_four_symbols(halting: str, task: str) -> None:
    """The model memorises twelve sequences, and writes them symbol by symbol."""
    sizes = {"encoder_steps": 2, "decoder_steps": 2, "d_model": 32, "d_ff": 64}
    model = build(halting=halting, dropout=0.0, **sizes)
    source = torch.randint(1, 20, (12, 4))
    target = source if task == "copy" else source.flip(1)
    start = torch.zeros(12, dtype=torch.int64)
    inputs = torch.cat((start.unsqueeze(1), target[:, :-1]), dim=1)
    real = torch.ones_like(source, dtype=torch.bool)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(100):
        decoded = model(source, real, inputs, real)
        loss = F.cross_entropy(model.project(decoded.states).flatten(0, 1), target.flatten())
        loss = loss + decoded.cost / target.numel()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    token, state, written = start, model.eval().start(model.encode(source, real)), []
    with torch.no_grad():
        for _ in range(4):
            logits, state = model.step(token, state)
            token = logits.argmax(dim=-1)
            written.append(token)
    assert torch.stack(written, dim=1).equal(target)
