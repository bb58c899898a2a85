"""Decoding one position at a time equals decoding all positions together, for all models and batches."""

from dataclasses import replace
from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from dragoman.models.registry import architectures, build_model
from dragoman.models.seq2seq import Memory, Seq2Seq
from dragoman.packing import Padded
from tests.support.variants import VARIANTS
from tests.support.variants.sizes import LONGEST, MAXIMUM, V

# One variant of each architecture, and another one whose computation depends on the length.
LONG = [
    next(name for name in VARIANTS if name.startswith(architecture))
    for architecture in architectures("seq2seq")
    if any(name.startswith(architecture) for name in VARIANTS)
] + ["transformer, rotary"]
variants = st.sampled_from(sorted(VARIANTS))
seeds = st.integers(0, 2**32)


@cache
def model(variant: str) -> Seq2Seq:
    """Return a model in float64, to exclude rounding errors, after a few batches for the statistics of batch norm."""
    torch.manual_seed(len(variant))
    built = build_model(replace(VARIANTS[variant], dropout=0.0)).double()
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
        for _ in range(3):
            tokens = torch.randint(V, (4, 9))
            built.decode(tokens, built.encode(tokens, torch.ones_like(tokens, dtype=torch.bool)))
    return built.eval()


@st.composite
def sources(draw: st.DrawFn) -> tuple[Tensor, Tensor]:
    """Return ids and mask of 1 to 4 sentences of 0 to MAXIMUM tokens; padding has arbitrary ids."""
    lengths = draw(st.lists(st.integers(0, MAXIMUM), min_size=1, max_size=4), label="source lengths")
    width = max(1, *lengths, draw(st.integers(1, MAXIMUM), label="width"))
    return random_tokens(draw(seeds), len(lengths), width), torch.arange(width) < torch.tensor(lengths).unsqueeze(1)


def random_tokens(seed: int, rows: int, length: int) -> Tensor:
    return torch.randint(V, (rows, length), generator=torch.Generator().manual_seed(seed))


def assert_close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-6, atol=1e-7)


@torch.no_grad()
@settings(deadline=None, max_examples=80)
@given(variant=variants, source=sources(), length=st.integers(1, MAXIMUM), data=st.data())
def test_step_equals_decode(variant: str, source: tuple[Tensor, Tensor], length: int, data: st.DataObject) -> None:
    """Between steps, rows are reordered, repeated and removed, as in beam search."""
    translator = model(variant)
    memory = translator.encode(*source)
    state = translator.start(memory)
    rows = len(source[0])
    # For every row: the index of its source, and its tokens so far.
    source_rows, tokens = torch.arange(rows), torch.empty(rows, 0, dtype=torch.int64)
    for _ in range(length):
        orders = st.lists(st.integers(0, len(tokens) - 1), min_size=1, max_size=5)
        drawn_order = data.draw(st.none() | orders, label="reorder")
        if drawn_order is not None:
            order = torch.tensor(drawn_order)
            state, source_rows, tokens = state.reorder(order), source_rows[order], tokens[order]
        token = random_tokens(data.draw(seeds), len(tokens), 1)
        tokens = torch.cat((tokens, token), dim=1)
        logits, state = translator.step(token.squeeze(1), state)
        assert_close(logits, translator.decode(tokens, memory.reorder(source_rows))[:, -1])


@torch.no_grad()
@settings(deadline=None, max_examples=40)
@given(variant=variants, source=sources(), length=st.integers(1, MAXIMUM), data=st.data())
def test_states_are_not_changed_by_later_steps(
    variant: str, source: tuple[Tensor, Tensor], length: int, data: st.DataObject
) -> None:
    """A step from an old state gives the same result again."""
    translator = model(variant)
    state = translator.start(translator.encode(*source))
    tokens = random_tokens(data.draw(seeds), len(source[0]), length)
    history = []
    for t in range(length):
        logits, following = translator.step(tokens[:, t], state)
        history.append((state, tokens[:, t], logits))
        translator.step((tokens[:, t] + 1) % V, state)
        state = following
    for old, token, expected in history:
        assert translator.step(token, old)[0].equal(expected)


@torch.no_grad()
@settings(deadline=None, max_examples=40)
@given(variant=variants, source=sources(), length=st.integers(1, MAXIMUM), more=st.integers(1, 8), seed=seeds)
def test_source_padding_does_not_matter(
    variant: str, source: tuple[Tensor, Tensor], length: int, more: int, seed: int
) -> None:
    """The logits of a sentence do not depend on the ids or the length of padding, nor on other sentences."""
    translator = model(variant)
    tokens, mask = source
    target = random_tokens(seed, len(tokens), length)
    memory = translator.encode(tokens, mask)
    expected = translator.decode(target, memory)
    assert expected.isfinite().all()

    padding = random_tokens(seed + 1, len(tokens), more)
    wider = torch.cat((torch.where(mask, tokens, (tokens + 1) % V), padding), dim=1)
    wider_mask = torch.cat((mask, torch.zeros_like(padding, dtype=torch.bool)), dim=1)
    assert_close(translator.decode(target, translator.encode(wider, wider_mask)), expected)
    for row in range(len(tokens)):
        alone = tokens[row : row + 1, : max(1, int(mask[row].sum()))]
        alone_mask = mask[row : row + 1, : alone.shape[1]]
        assert_close(
            translator.decode(target[row : row + 1], translator.encode(alone, alone_mask)), expected[row : row + 1]
        )


@torch.no_grad()
@settings(deadline=None, max_examples=40)
@given(variant=variants, source=sources(), length=st.integers(1, MAXIMUM), data=st.data())
def test_later_target_tokens_do_not_matter(
    variant: str, source: tuple[Tensor, Tensor], length: int, data: st.DataObject
) -> None:
    """The logits of a position do not change if later target tokens are changed or removed."""
    translator = model(variant)
    memory = translator.encode(*source)
    target = random_tokens(data.draw(seeds), len(source[0]), length)
    expected = translator.decode(target, memory)
    cut = data.draw(st.integers(1, length), label="cut")
    assert_close(translator.decode(target[:, :cut], memory), expected[:, :cut])
    other = torch.cat((target[:, :cut], (target[:, cut:] + 1) % V), dim=1)
    assert_close(translator.decode(other, memory)[:, :cut], expected[:, :cut])
    # The logits of a position depend on its own token.
    changed = target.clone()
    changed[:, cut - 1] = (changed[:, cut - 1] + 1) % V
    assert not translator.decode(changed, memory)[:, cut - 1].equal(expected[:, cut - 1])


@torch.no_grad()
@settings(deadline=None, max_examples=40)
@given(variant=variants, source=sources(), length=st.integers(1, MAXIMUM), seed=seeds)
def test_the_source_matters(variant: str, source: tuple[Tensor, Tensor], length: int, seed: int) -> None:
    """Another first source token changes all logits of its sentence, and none of the other sentences."""
    translator = model(variant)
    tokens, mask = source
    target = random_tokens(seed, len(tokens), length)
    expected = translator.decode(target, translator.encode(tokens, mask))
    other = tokens.clone()
    other[0, 0] = (other[0, 0] + 1) % V
    logits = translator.decode(target, translator.encode(other, mask))
    if mask[0, 0]:
        assert (logits[0] - expected[0]).abs().amax(dim=-1).gt(1e-9).all()
    else:
        assert_close(logits[0], expected[0])
    assert_close(logits[1:], expected[1:])


@torch.no_grad()
@settings(deadline=None, max_examples=30)
@given(variant=variants, source=sources(), length=st.integers(1, MAXIMUM), data=st.data())
def test_the_order_of_the_batch_does_not_matter(
    variant: str, source: tuple[Tensor, Tensor], length: int, data: st.DataObject
) -> None:
    translator = model(variant)
    tokens, mask = source
    target = random_tokens(data.draw(seeds), len(tokens), length)
    expected = translator.decode(target, translator.encode(tokens, mask))
    order = torch.tensor(data.draw(st.permutations(range(len(tokens)))))
    assert_close(translator.decode(target[order], translator.encode(tokens[order], mask[order])), expected[order])


@torch.no_grad()
@pytest.mark.parametrize("variant", LONG)
def test_step_equals_decode_for_long_sentences(variant: str) -> None:
    """Longer than the initial tables of positions (256), and long enough for torch's fused kernel (128 by 128)."""
    translator = model(variant)
    length = 270
    source, target = random_tokens(1, 2, LONGEST), random_tokens(2, 2, length)
    mask = torch.arange(LONGEST) < torch.tensor([[LONGEST], [140]])
    memory = translator.encode(source, mask)
    expected = translator.decode(target, memory)
    state = translator.start(memory)
    for t in range(length):
        logits, state = translator.step(target[:, t], state)
        torch.testing.assert_close(logits, expected[:, t], rtol=1e-5, atol=1e-6)


@torch.no_grad()
@pytest.mark.parametrize("variant", sorted(VARIANTS))
def test_step_equals_decode_in_float32(variant: str) -> None:
    """Models run in float32; the difference is at most 1e-4."""
    translator = build_model(VARIANTS[variant]).eval()
    source, target = random_tokens(1, 3, 9), random_tokens(2, 3, 8)
    mask = torch.arange(9) < torch.tensor([[9], [4], [1]])
    memory = translator.encode(source, mask)
    expected = translator.decode(target, memory)
    state = translator.start(memory)
    for t in range(8):
        logits, state = translator.step(target[:, t], state)
        torch.testing.assert_close(logits, expected[:, t], rtol=1e-4, atol=1e-4)


def test_a_step_without_rows() -> None:
    """When every output is finished, no rows remain."""
    translator = model("transformer, paper")
    source = random_tokens(1, 2, 5)
    state = translator.start(translator.encode(source, torch.ones_like(source, dtype=torch.bool)))
    no_rows = torch.empty(0, dtype=torch.int64)
    logits, _ = translator.step(no_rows, state.reorder(no_rows))
    assert logits.shape == (0, V)


def test_reordering_of_memory() -> None:
    mask = torch.tensor([[True] * 4, [False] * 4, [True] * 4])
    memory = Memory(torch.randn(3, 4, 2), Padded(mask))
    reordered = memory.reorder(torch.tensor([2, 2, 0, 1]))
    assert reordered.states.equal(memory.states[[2, 2, 0, 1]])
    assert reordered.mask.equal(memory.mask[[2, 2, 0, 1]])
