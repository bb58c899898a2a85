"""One position at a time with a cache, or all at once: the same logits, whatever the model and the batch."""

from dataclasses import replace
from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from dragoman.models.registry import ARCHITECTURES, build_model
from dragoman.models.seq2seq import Memory, Seq2Seq
from dragoman.packing import Padded
from tests.support.variants import VARIANTS
from tests.support.variants.sizes import LONGEST, MAXIMUM, V

# One of each architecture, and what else depends on the length.
LONG = [
    next(name for name in VARIANTS if name.startswith(each))
    for each in ARCHITECTURES
    if any(name.startswith(each) for name in VARIANTS)
] + ["transformer, rotary"]
variants = st.sampled_from(sorted(VARIANTS))
seeds = st.integers(0, 2**32)


@cache
def model(variant: str) -> Seq2Seq:
    """In float64, so that only mistakes differ; batch norms have seen some data."""
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
    """Ids and mask of 1 to 4 sentences of 1 to MAXIMUM tokens; one may be empty. Padding holds any ids."""
    lengths = draw(st.lists(st.integers(0, MAXIMUM), min_size=1, max_size=4), label="source lengths")
    width = max(1, *lengths, draw(st.integers(1, MAXIMUM), label="width"))
    return random_tokens(draw(seeds), len(lengths), width), torch.arange(width) < torch.tensor(lengths).unsqueeze(1)


def random_tokens(seed: int, rows: int, length: int) -> Tensor:
    return torch.randint(V, (rows, length), generator=torch.Generator().manual_seed(seed))


def close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-7)


@torch.no_grad()
@settings(deadline=None, max_examples=80)
@given(variant=variants, source=sources(), length=st.integers(1, MAXIMUM), data=st.data())
def test_step_equals_decode(variant: str, source: tuple[Tensor, Tensor], length: int, data: st.DataObject) -> None:
    """Between steps rows are reordered, repeated and dropped, as a beam does."""
    translator = model(variant)
    memory = translator.encode(*source)
    state = translator.start(memory)
    rows = len(source[0])
    # Of every row: the source it reads, and what it has said.
    reads, said = torch.arange(rows), torch.empty(rows, 0, dtype=torch.int64)
    for _ in range(length):
        choices = st.lists(st.integers(0, len(said) - 1), min_size=1, max_size=5)
        order = data.draw(st.none() | choices, label="reorder")
        if order is not None:
            kept = torch.tensor(order)
            state, reads, said = state.reorder(kept), reads[kept], said[kept]
        token = random_tokens(data.draw(seeds), len(said), 1)
        said = torch.cat((said, token), dim=1)
        logits, state = translator.step(token.squeeze(1), state)
        close(logits, translator.decode(said, memory.reorder(reads))[:, -1])


@torch.no_grad()
@settings(deadline=None, max_examples=40)
@given(variant=variants, source=sources(), length=st.integers(1, MAXIMUM), data=st.data())
def test_states_are_not_changed_by_what_follows(
    variant: str, source: tuple[Tensor, Tensor], length: int, data: st.DataObject
) -> None:
    """Search may go back: an old state stepped again gives what it gave the first time."""
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
    """Neither its ids nor its length nor the other sentences of the batch change a sentence's logits."""
    translator = model(variant)
    tokens, mask = source
    target = random_tokens(seed, len(tokens), length)
    memory = translator.encode(tokens, mask)
    expected = translator.decode(target, memory)
    assert expected.isfinite().all()

    padding = random_tokens(seed + 1, len(tokens), more)
    wider = torch.cat((torch.where(mask, tokens, (tokens + 1) % V), padding), dim=1)
    wider_mask = torch.cat((mask, torch.zeros_like(padding, dtype=torch.bool)), dim=1)
    close(translator.decode(target, translator.encode(wider, wider_mask)), expected)
    for row in range(len(tokens)):
        alone = tokens[row : row + 1, : max(1, int(mask[row].sum()))]
        alone_mask = mask[row : row + 1, : alone.shape[1]]
        close(translator.decode(target[row : row + 1], translator.encode(alone, alone_mask)), expected[row : row + 1])


@torch.no_grad()
@settings(deadline=None, max_examples=40)
@given(variant=variants, source=sources(), length=st.integers(1, MAXIMUM), data=st.data())
def test_the_future_does_not_matter(
    variant: str, source: tuple[Tensor, Tensor], length: int, data: st.DataObject
) -> None:
    """Other target tokens, or fewer of them, leave the logits before them as they were."""
    translator = model(variant)
    memory = translator.encode(*source)
    target = random_tokens(data.draw(seeds), len(source[0]), length)
    expected = translator.decode(target, memory)
    cut = data.draw(st.integers(1, length), label="cut")
    close(translator.decode(target[:, :cut], memory), expected[:, :cut])
    other = torch.cat((target[:, :cut], (target[:, cut:] + 1) % V), dim=1)
    close(translator.decode(other, memory)[:, :cut], expected[:, :cut])
    # The present matters: the last token that a position sees is its own.
    here = target.clone()
    here[:, cut - 1] = (here[:, cut - 1] + 1) % V
    assert not translator.decode(here, memory)[:, cut - 1].equal(expected[:, cut - 1])


@torch.no_grad()
@settings(deadline=None, max_examples=40)
@given(variant=variants, source=sources(), length=st.integers(1, MAXIMUM), seed=seeds)
def test_the_source_matters(variant: str, source: tuple[Tensor, Tensor], length: int, seed: int) -> None:
    """Another first word changes the logits of its sentence, from the first on, and of no other."""
    translator = model(variant)
    tokens, mask = source
    target = random_tokens(seed, len(tokens), length)
    expected = translator.decode(target, translator.encode(tokens, mask))
    other = tokens.clone()
    other[0, 0] = (other[0, 0] + 1) % V
    found = translator.decode(target, translator.encode(other, mask))
    if mask[0, 0]:
        assert (found[0] - expected[0]).abs().amax(dim=-1).gt(1e-9).all()
    else:
        close(found[0], expected[0])
    close(found[1:], expected[1:])


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
    close(translator.decode(target[order], translator.encode(tokens[order], mask[order])), expected[order])


@torch.no_grad()
@pytest.mark.parametrize("variant", LONG)
def test_long_sentences_step_alike(variant: str) -> None:
    """Beyond the first tables of positions (256), and where torch's fused kernel takes over (128 by 128)."""
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
def test_single_precision_is_near(variant: str) -> None:
    """What users run: float32, to within 1e-4."""
    translator = build_model(VARIANTS[variant]).eval()
    source, target = random_tokens(1, 3, 9), random_tokens(2, 3, 8)
    mask = torch.arange(9) < torch.tensor([[9], [4], [1]])
    memory = translator.encode(source, mask)
    expected = translator.decode(target, memory)
    state = translator.start(memory)
    for t in range(8):
        logits, state = translator.step(target[:, t], state)
        torch.testing.assert_close(logits, expected[:, t], rtol=1e-4, atol=1e-4)


def test_no_rows_are_left() -> None:
    """When every output is finished, nothing remains to step."""
    translator = model("transformer, paper")
    source = random_tokens(1, 2, 5)
    state = translator.start(translator.encode(source, torch.ones_like(source, dtype=torch.bool)))
    none = torch.empty(0, dtype=torch.int64)
    logits, _ = translator.step(none, state.reorder(none))
    assert logits.shape == (0, V)


def test_memory_reorders() -> None:
    mask = torch.tensor([[True] * 4, [False] * 4, [True] * 4])
    memory = Memory(torch.randn(3, 4, 2), Padded(mask))
    found = memory.reorder(torch.tensor([2, 2, 0, 1]))
    assert found.states.equal(memory.states[[2, 2, 0, 1]])
    assert found.mask.equal(memory.mask[[2, 2, 0, 1]])
