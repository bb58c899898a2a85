"""Masking of tokens: rates, whole words, special symbols, and reproducibility."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from dragoman.data.batching import Cursor
from dragoman.data.masking import MaskedBatch, MaskedStream, Masking, MaskingConfig
from dragoman.errors import SettingsError
from dragoman.text.subwords import BOS, EOS, MASK, ORDINARY

# Every third token begins a word.
TEXTS = ["<pad>", "<unk>", "<s>", "</s>", *(f"▁{i}" if i % 3 == 0 else f"{i}" for i in range(96))]
V = len(TEXTS)


@dataclass(frozen=True)
class Windows:
    tokens_in: Tensor
    documents: Tensor | None = None


def windows(rows: int, length: int, seed: int = 0, special: float = 0.1) -> Windows:
    generator = np.random.default_rng(seed)
    tokens = generator.integers(ORDINARY, V, (rows, length))
    ends = generator.random((rows, length)) < special
    tokens[ends] = EOS
    tokens[:, 1:][ends[:, :-1]] = BOS
    return Windows(torch.from_numpy(tokens))


def masking(seed: int = 0, **settings: Any) -> Masking:
    return Masking.of(MaskingConfig(**settings), TEXTS, seed)


def original(batch: MaskedBatch) -> Tensor:
    """Return the tokens before masking."""
    tokens = batch.tokens.flatten().clone()
    tokens[batch.positions] = batch.targets
    return tokens.view_as(batch.tokens)


@pytest.mark.parametrize("whole_words", [False, True])
def test_rates(whole_words: bool) -> None:
    """15 % of the ordinary tokens are predicted: 80 % of them are masked, 10 % random, 10 % unchanged."""
    text = windows(400, 127)
    batch = masking(whole_words=whole_words).batch(text, Cursor())
    ordinary = int((text.tokens_in >= ORDINARY).sum())
    M = len(batch.targets)
    # Rounding is random for each row, so that the total varies little.
    assert abs(M / ordinary - 0.15) < 0.002
    inputs = batch.tokens.flatten()[batch.positions]
    masked, same = (inputs == MASK).float().mean(), (inputs == batch.targets).float().mean()
    # Three standard deviations of a proportion of about 6,800 tokens. A random token is the same one in 1 of 96 cases.
    assert abs(masked - 0.8) < 0.015
    assert abs(same - 0.101) < 0.011
    other = inputs[(inputs != MASK) & (inputs != batch.targets)]
    assert other.min() >= ORDINARY
    assert len(other.unique()) == V - ORDINARY
    # Every position of a window is predicted equally often.
    by_position = torch.bincount(batch.positions % 128, minlength=128)[1:].float() / 400
    assert (by_position - 0.15 * 0.81).abs().max() < 0.075


@given(rows=st.integers(1, 4), length=st.integers(1, 20), seed=st.integers(0, 99), whole=st.booleans())
def test_special_symbols_and_the_rest_of_the_text_are_unchanged(rows: int, length: int, seed: int, whole: bool) -> None:
    text = windows(rows, length, seed, special=0.4)
    batch = masking(seed, whole_words=whole, dynamic=seed % 2 == 0).batch(text, Cursor(epoch=seed))
    tokens = original(batch)
    assert tokens[:, 0].eq(BOS).all()
    assert tokens[:, 1:].equal(text.tokens_in)
    assert batch.targets.ge(ORDINARY).all()
    assert batch.positions.diff().gt(0).all()
    changed = batch.tokens != tokens
    assert set(changed.flatten().nonzero().squeeze(1).tolist()) <= set(batch.positions.tolist())
    # Each row with an ordinary token has something to predict.
    predicted = torch.bincount(batch.positions // tokens.shape[1], minlength=rows) > 0
    assert predicted.equal(text.tokens_in.ge(ORDINARY).any(dim=1))


@given(seed=st.integers(0, 99))
def test_whole_words(seed: int) -> None:
    batch = masking(seed, whole_words=True).batch(windows(3, 40, seed), Cursor())
    tokens, selected = original(batch), torch.zeros(3 * 41, dtype=torch.bool)
    selected[batch.positions] = True
    for row, chosen in zip(tokens.tolist(), selected.view(3, 41).tolist(), strict=True):
        for i in range(1, 41):
            same_word = not TEXTS[row[i]].startswith("▁") and min(row[i], row[i - 1]) >= ORDINARY
            assert not same_word or chosen[i] == chosen[i - 1]


def equal(first: MaskedBatch, second: MaskedBatch) -> bool:
    return first.tokens.equal(second.tokens) and first.positions.equal(second.positions)


def test_dynamic_masks_depend_on_seed_and_cursor_and_static_ones_on_seed_and_text() -> None:
    text = windows(4, 60)
    here, later = Cursor(epoch=1, batch=2), Cursor(epoch=2, batch=2)
    dynamic, static = masking(), masking(dynamic=False)
    assert equal(dynamic.batch(text, here), dynamic.batch(text, here))
    assert not equal(dynamic.batch(text, here), dynamic.batch(text, later))
    assert not equal(dynamic.batch(text, here), masking(seed=1).batch(text, here))
    assert equal(static.batch(text, here), static.batch(text, later))
    assert equal(static.batch(text, here), dynamic.batch(text, None))
    assert not equal(static.batch(text, here), masking(seed=1, dynamic=False).batch(text, here))
    # In another batch, too.
    reversed_rows = static.batch(Windows(text.tokens_in.flip(0)), here)
    assert reversed_rows.tokens.flip(0).equal(static.batch(text, here).tokens)


class Texts:
    """An endless stream of two batches."""

    def from_cursor(self, cursor: Cursor) -> Iterator[tuple[Windows, Cursor]]:
        while True:
            cursor = Cursor(epoch=cursor.epoch + cursor.batch, batch=1 - cursor.batch)
            yield windows(2, 30, seed=cursor.batch), cursor

    def longest(self) -> Windows:
        return windows(2, 30)


def test_a_resumed_stream_has_the_same_masks() -> None:
    stream = MaskedStream(Texts(), masking())
    batches = stream.from_cursor(Cursor())
    earlier = [next(batches) for _ in range(5)]
    resumed = stream.from_cursor(earlier[1][1])
    for expected, following in earlier[2:]:
        batch, cursor = next(resumed)
        assert cursor == following
        assert equal(batch, expected)
    assert stream.longest().tokens.shape == (2, 31)


def test_rows_of_a_batch() -> None:
    text = Windows(windows(4, 60).tokens_in, torch.zeros(4, 60, dtype=torch.int64))
    batch = masking().batch(text, Cursor())
    parts = [batch.rows(0, 1), batch.rows(1, 4)]
    assert torch.cat([original(part) for part in parts]).equal(original(batch))
    assert torch.cat([part.targets for part in parts]).equal(batch.targets)
    assert parts[0].documents is not None
    assert parts[0].documents.shape == (1, 61)


def test_next_sentence() -> None:
    text = windows(200, 21)
    batch = masking(next_sentence=True).batch(text, Cursor())
    assert batch.segments is not None
    assert batch.follows is not None
    tokens = original(batch)
    first, second = text.tokens_in[:, :10], text.tokens_in[:, 10:]
    assert tokens[:, 1:11].equal(first)
    assert tokens[:, [0, 11, 23]].equal(torch.tensor([[BOS, EOS, EOS]]).expand(200, 3))
    assert batch.segments[0].tolist() == 12 * [0] + 12 * [1]
    own = (tokens[:, 12:23] == second).all(dim=1)
    assert own.long().equal(batch.follows)
    assert 70 < own.sum() < 130
    # The others are second halves of other windows.
    halves = set(map(tuple, second.tolist()))
    assert all(tuple(row) in halves for row in tokens[:, 12:23].tolist())
    with pytest.raises(SettingsError, match="at least 2 windows"):
        masking(next_sentence=True).batch(windows(1, 21), Cursor())


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"share": 0.0}, "masking.share"), ({"masked": 0.9, "random": 0.2}, "0.9 and 0.2"), ({"random": -0.1}, "-0.1")],
)
def test_invalid_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        MaskingConfig(**settings)
