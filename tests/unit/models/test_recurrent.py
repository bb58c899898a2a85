"""The recurrent encoder-decoder: sizes, gradients, dependence on the source, dropout and training."""

from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dragoman.data.batching import collate
from dragoman.models.config.recurrent import RecurrentConfig
from dragoman.models.recurrent import Recurrent, RecurrentMemory, build_recurrent
from dragoman.search.beam import beam_search
from dragoman.search.config import SearchConfig
from dragoman.search.stepper import SingleModel
from dragoman.text.subwords import EOS
from dragoman.training.gradients import accumulate_gradients
from dragoman.training.translation_objective import TranslationLosses, mean_loss
from tests.support.variants.recurrent import VARIANTS
from tests.support.variants.sizes import V

CPU = torch.device("cpu")
EACH_VARIANT = pytest.mark.parametrize("variant", VARIANTS)


def build(**changes: Any) -> Recurrent:
    """Return a model with a few thousand weights."""
    torch.manual_seed(0)
    return build_recurrent(
        RecurrentConfig(**{"source_vocabulary": 20, "target_vocabulary": 20, "d_model": 16, **changes})
    )


def variant_in_float64(variant: str) -> Recurrent:
    """Return a model without dropout, with random noise added to all weights, so that no bias is zero."""
    torch.manual_seed(1)
    model = build_recurrent(replace(VARIANTS[variant], dropout=0.0)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def tokens(rows: int, length: int, seed: int = 0) -> Tensor:
    return torch.randint(4, V, (rows, length), generator=torch.Generator().manual_seed(seed))


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def decreasing_lengths(rows: int, length: int) -> Tensor:
    """Return the mask of sentences that are each one token shorter than the previous one."""
    return torch.arange(length) < (length - torch.arange(rows)).unsqueeze(1)


def logits(model: Recurrent, source: Tensor, target: Tensor) -> Tensor:
    return model.decode(target, model.encode(source, torch.ones_like(source, dtype=torch.bool)))


def memory_of(model: Recurrent) -> RecurrentMemory:
    return model.encode(tokens(2, 5), torch.ones(2, 5, dtype=torch.bool))


# Sizes and settings


@pytest.mark.parametrize(("cell", "gates", "parts"), [("lstm", 4, 2), ("gru", 3, 1)])
def test_count_by_hand(cell: str, gates: int, parts: int) -> None:
    def layer(d_input: int, d_state: int) -> int:
        return gates * d_state * (d_input + d_state + 2)

    encoder, bridge, combine = 2 * 2 * layer(16, 8), 2 * parts * (16 * 16 + 16), 2 * 16 * 16
    decoder = layer(32, 16) + layer(16, 16)
    whole = 20 * 16 + encoder + bridge + decoder + combine + 16 * 16

    def count(**changes: Any) -> int:
        return parameters(build(cell=cell, **changes))

    assert count() == whole
    assert count(attention="dot") == whole - 16 * 16
    assert count(attention="additive") == whole + 16 * 16 + 16
    without_feeding = whole - gates * 16 * 16
    assert count(input_feeding=False) == without_feeding
    assert count(input_feeding=False, attention="none") == without_feeding - 16 * 16 - combine
    assert count(bidirectional=False) == whole - encoder + 2 * layer(16, 16)
    assert count(encoder_layers=3) == whole + encoder // 2
    assert count(decoder_layers=1) == whole - layer(16, 16) - bridge // 2
    assert count(tied_embeddings="two-way") == whole + 20 * 16
    assert count(tied_embeddings="none", target_vocabulary=30) == whole + (30 + 30) * 16


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"attention": "none"}, "input_feeding needs an attention, but attention = 'none'"),
        ({"d_model": 15}, "even for a bidirectional encoder, not 15"),
        ({"encoder_layers": 0}, "encoder_layers must be at least 1, not 0"),
        ({"decoder_layers": 0}, "decoder_layers"),
    ],
)
def test_invalid_settings(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(**changes)
    assert parameters(build(d_model=15, bidirectional=False)) > 0


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_initialisation(cell: str) -> None:
    model = build(cell=cell, d_model=64, tied_embeddings="none")
    for name, weight in model.named_parameters():
        if "weight_hh" in name:
            for gate in weight.split(weight.shape[1]):
                torch.testing.assert_close(gate @ gate.t(), torch.eye(len(gate)), msg=name)
        elif "weight_ih" in name:
            gates = weight.unflatten(0, (4 if cell == "lstm" else 3, -1))
            bound = (6 / sum(gates.shape[1:])) ** 0.5
            assert weight.abs().max().item() == pytest.approx(bound, rel=0.01), name
        elif "bias_ih" in name and cell == "lstm":
            i, f, g, o = weight.chunk(4)
            assert f.eq(1).all()
            assert torch.cat((i, g, o)).eq(0).all()
        elif "bias" in name:
            assert weight.eq(0).all(), name
        elif "embedding" in name or "output" in name:
            assert weight.std().item() == pytest.approx(64**-0.5, rel=0.06), name
        else:
            assert weight.abs().max().item() == pytest.approx((6 / sum(weight.shape)) ** 0.5, rel=0.02), name


# Gradients


@EACH_VARIANT
def test_gradients_equal_finite_differences(variant: str) -> None:
    """Along a random direction in the space of all weights, in float64."""
    model = variant_in_float64(variant)
    source, target, labels = tokens(3, 5), tokens(3, 4, seed=1), tokens(3, 4, seed=2)
    mask = decreasing_lengths(3, 5)

    def loss() -> Tensor:
        return F.cross_entropy(model.decode(target, model.encode(source, mask)).transpose(1, 2), labels)

    weights = list(model.parameters())
    directions = [random(*weight.shape, seed=i) for i, weight in enumerate(weights)]
    gradients = torch.autograd.grad(loss(), weights)
    slope = sum(float((gradient * direction).sum()) for gradient, direction in zip(gradients, directions, strict=True))
    step, values = 1e-5, []
    with torch.no_grad():
        for change in (step, -2 * step):
            for weight, direction in zip(weights, directions, strict=True):
                weight.add_(change * direction)
            values.append(loss().item())
    assert slope == pytest.approx((values[0] - values[1]) / (2 * step), rel=1e-6, abs=1e-9)


@EACH_VARIANT
def test_gradients_of_all_positions_at_once_equal_those_of_steps(variant: str) -> None:
    """With separate steps, autograd itself sums the gradients of each weight, without `RepeatedProduct`."""
    model = variant_in_float64(variant)
    source, target, weights = tokens(3, 5), tokens(3, 6, seed=1), random(3, 6, V)
    memory = model.encode(source, decreasing_lengths(3, 5))
    state, steps = model.start(memory), []
    for token in target.unbind(1):
        step, state = model.step(token, state)
        steps.append(step)
    expected = torch.autograd.grad((torch.stack(steps, dim=1) * weights).sum(), list(model.parameters()))
    memory = model.encode(source, decreasing_lengths(3, 5))
    actual = torch.autograd.grad((model.decode(target, memory) * weights).sum(), list(model.parameters()))
    for (name, _), one, other in zip(model.named_parameters(), actual, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-10, msg=name)


@EACH_VARIANT
def test_half_precision_is_close(variant: str) -> None:
    """Loss and gradients under autocast; gradients are in float32."""
    torch.manual_seed(0)
    model = build_recurrent(replace(VARIANTS[variant], d_model=32, dropout=0.0))
    batch = collate(tokens(8, 6).tolist(), [row[: 3 + i % 3] for i, row in enumerate(tokens(8, 5, seed=1).tolist())])
    actual = {}
    for precision in ("fp32", "bf16"):
        total, _ = accumulate_gradients(model, [batch], TranslationLosses(0.1), precision, CPU)
        actual[precision] = total, [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
        model.zero_grad(set_to_none=True)
    (loss, gradients), (half_loss, half_gradients) = actual["fp32"], actual["bf16"]
    assert half_loss.item() == pytest.approx(loss.item(), rel=0.01)
    assert mean_loss(model, [batch], "bf16", CPU) == pytest.approx(mean_loss(model, [batch], "fp32", CPU), rel=0.01)
    whole = torch.cat([gradient.flatten() for gradient in gradients])
    half = torch.cat([gradient.flatten() for gradient in half_gradients])
    assert half.dtype == torch.float32
    assert (half - whole).norm() < 0.05 * whole.norm()


# Dependence of the decoder on the source


def changed_memory(memory: RecurrentMemory, *, states: bool = False, final: bool = False) -> RecurrentMemory:
    """Return the memory with different encoder states, or with different final states."""
    return RecurrentMemory(
        memory.states + random(*memory.states.shape) if states else memory.rows,
        memory.layout,
        memory.final + random(*memory.final.shape) if final else memory.final,
    )


@torch.no_grad()
@EACH_VARIANT
def test_without_attention_the_decoder_depends_on_the_final_states_only(variant: str) -> None:
    """Without attention, sources with equal final states have equal logits; with attention, they have not."""
    model = variant_in_float64(variant)
    target = tokens(3, 4)
    memory = model.encode(tokens(3, 5), torch.ones(3, 5, dtype=torch.bool))
    expected = model.decode(target, memory)
    assert not model.decode(target, changed_memory(memory, final=True)).allclose(expected)
    with_other_states = model.decode(target, changed_memory(memory, states=True))
    if VARIANTS[variant].attention == "none":
        assert with_other_states.equal(expected)
        # The state does not contain tensors with the length of the source.
        state = model.start(memory)
        assert state.source is None
        assert all(part.shape == (3, 12) for layer in state.layers for part in layer)
    else:
        assert not with_other_states.allclose(expected)


@torch.no_grad()
def test_input_feeding() -> None:
    """The attentional state is part of the next position's input; it is zeros at the first position."""
    model = variant_in_float64("default")
    memory = model.encode(tokens(2, 5), torch.ones(2, 5, dtype=torch.bool))
    state = model.start(memory)
    assert state.attentional.eq(0).all()
    x = model.target_embedding(tokens(2, 1))
    attentional, after = model.decoder.unroll(x, state)
    assert after.attentional.equal(attentional[:, 0])
    _, after_zeros = model.decoder.unroll(x, replace(after, attentional=torch.zeros_like(after.attentional)))
    _, after_feeding = model.decoder.unroll(x, after)
    assert not after_feeding.attentional.allclose(after_zeros.attentional)
    without_feeding = build(input_feeding=False)
    assert without_feeding.start(memory_of(without_feeding)).attentional.shape == (2, 0)


def test_memory_reorders_with_its_final_states() -> None:
    memory, rows = memory_of(build()), torch.tensor([1, 1, 0])
    actual = memory.reorder(rows)
    assert actual.states.equal(memory.states[rows])
    assert actual.mask.equal(memory.mask[rows])
    assert actual.final.equal(memory.final[rows])


# Behaviour


def test_each_setting_changes_the_logits() -> None:
    actual = [
        logits(build(dropout=0.0, **changes), tokens(2, 6), tokens(2, 5))
        for changes in (
            {},
            {"cell": "gru"},
            {"bidirectional": False},
            {"attention": "dot"},
            {"attention": "additive"},
            {"input_feeding": False},
            {"attention": "none", "input_feeding": False},
            {"encoder_layers": 1},
            {"decoder_layers": 1},
        )
    ]
    for i, one in enumerate(actual):
        for other in actual[:i]:
            assert not torch.allclose(one, other, atol=1e-4)


def half_dropped(x: Tensor) -> bool:
    """Return True if about half of the elements are zero."""
    return 0.4 < x.eq(0).float().mean().item() < 0.6


def without_dropout_of_embeddings(**changes: Any) -> Recurrent:
    model = build(dropout=0.5, **changes)
    model.source_embedding.eval()
    model.target_embedding.eval()
    return model


@pytest.mark.parametrize("input_feeding", [False, True])
def test_dropout_is_on_the_output_and_between_layers(input_feeding: bool) -> None:
    model = without_dropout_of_embeddings(input_feeding=input_feeding, encoder_layers=3)
    source, x = tokens(30, 6), model.target_embedding(tokens(30, 7))
    mask = torch.ones_like(source, dtype=torch.bool)
    first, second = model.encode(source, mask), model.encode(source, mask)
    # The input of the first layer is the embeddings; the inputs of the other layers have dropout.
    assert first.final[:, 0].equal(second.final[:, 0])
    assert not first.final[:, 1].allclose(second.final[:, 1])
    assert not half_dropped(first.states)
    one, other = (model.decoder.unroll(x[:, :1], model.start(first)) for _ in range(2))
    assert one[1].layers[0][0].equal(other[1].layers[0][0])
    assert not one[1].layers[1][0].allclose(other[1].layers[1][0])
    assert half_dropped(one[0])
    assert half_dropped(model.decoder(x, model.start(first)))


def test_dropout_between_layers_without_input_feeding() -> None:
    model = without_dropout_of_embeddings(input_feeding=False)
    inputs: list[Tensor] = []
    for layer in model.decoder.layers:
        layer.register_forward_pre_hook(lambda _, arguments: inputs.append(arguments[0]))
    model.decode_states(tokens(30, 8), memory_of(model).reorder(torch.zeros(30, dtype=torch.int64)))
    assert [half_dropped(x) for x in inputs] == [False, True]


def test_the_attentional_state_that_is_fed_back_has_no_dropout() -> None:
    model = without_dropout_of_embeddings(decoder_layers=1)
    model.encoder.eval()
    x, start = model.target_embedding(tokens(2, 5)), model.start(memory_of(model))
    (_, one), (_, other) = model.decoder.unroll(x, start), model.decoder.unroll(x, start)
    assert one.attentional.equal(other.attentional)
    assert one.attentional.ne(0).all()


@pytest.mark.parametrize("variant", ["default", "lstm, one vector", "lstm, additive", "gru, dot"])
def test_reversing_four_symbols_is_learned(variant: str) -> None:
    """After at most 150 updates, beam search reverses all 256 sentences of four symbols."""
    torch.manual_seed(0)
    model = build_recurrent(replace(VARIANTS[variant], d_model=48, dropout=0.0))
    sources = torch.cartesian_prod(*[torch.arange(4, 8)] * 4).tolist()
    targets = [row[::-1] for row in sources]
    batch = collate(sources, targets)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(150):
        optimizer.zero_grad()
        total, count = accumulate_gradients(model, [batch], TranslationLosses(0.0), "fp32", CPU)
        if total < 0.01 * count:
            break
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    stepper = SingleModel(model.eval())
    state = stepper.start(batch.source, batch.source_mask)
    hypotheses = beam_search(stepper, state, [4] * len(sources), SearchConfig(beam=2), CPU)
    assert [list(best.tokens) for best, *_ in hypotheses] == targets
    assert EOS not in hypotheses[0][0].tokens
