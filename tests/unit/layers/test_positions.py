"""Sinusoidal, learned, one-hot, rotary and relative positions against their formulas."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from dragoman.errors import UserError
from dragoman.layers.positions import (
    LearnedPositions,
    OneHotPositions,
    RelativePositions,
    RotaryPositions,
    SinusoidalPositions,
    rotated_pairs,
    sinusoidal_table,
)


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


# Sinusoidal, learned and rotary


@pytest.mark.parametrize("position", [0, 1, 77, 200_000])
def test_sinusoids_follow_the_paper(position: int) -> None:
    table = sinusoidal_table(position + 1, 6)
    assert table.dtype == torch.float32
    expected = []
    for i in range(3):
        angle = position / 10_000 ** (2 * i / 6)
        expected += [math.sin(angle), math.cos(angle)]
    torch.testing.assert_close(table[position], torch.tensor(expected), atol=1e-6, rtol=0)


@pytest.mark.parametrize("offset", [0, 3, 247, 248, 256, 5000])
@pytest.mark.parametrize("base", [10_000.0, 50.0])
def test_sinusoidal_positions_are_added_at_any_offset(offset: int, base: float) -> None:
    x = random(2, 9, 8)
    expected = x + sinusoidal_table(offset + 9, 8, base=base)[offset:]
    torch.testing.assert_close(SinusoidalPositions(8, base)(x, offset), expected)


def test_fixed_positions_are_not_saved() -> None:
    assert not SinusoidalPositions(8).state_dict()
    assert not RotaryPositions(8).state_dict()


def test_learned_positions_are_limited() -> None:
    positions = LearnedPositions(5, 4)
    x = random(2, 3, 4)
    torch.testing.assert_close(positions(x, 2), x + positions.embedding.weight[2:5])
    with pytest.raises(ValueError, match="a sequence of 6 is longer than the 5 learned positions"):
        positions(x, 3)


@pytest.mark.parametrize("base", [10_000.0, 50.0])
@pytest.mark.parametrize("offset", [2, 255])
def test_rotation_by_the_formula(base: float, offset: int) -> None:
    """Pair i at position m is rotated by the angle m·n^(-2i/K)."""
    x = random(1, 1, 4, 6)
    rotated = RotaryPositions(6, base)(x, offset)
    for t in range(4):
        for i in range(3):
            angle = (offset + t) * base ** (-2 * i / 6)
            pair = complex(*x[0, 0, t, 2 * i : 2 * i + 2].tolist())
            expected = pair * complex(math.cos(angle), math.sin(angle))
            assert complex(*rotated[0, 0, t, 2 * i : 2 * i + 2].tolist()) == pytest.approx(expected, abs=2e-5)


@pytest.mark.parametrize("offset", [1, 100, 1000])
def test_rotated_products_depend_on_the_distance(offset: int) -> None:
    rotate = RotaryPositions(8)
    query, key = random(2, 3, 5, 8), random(2, 3, 5, 8, seed=1)
    expected = rotate(query, 0) @ rotate(key, 0).transpose(-2, -1)
    moved = rotate(query, offset) @ rotate(key, offset).transpose(-2, -1)
    torch.testing.assert_close(moved, expected, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(rotate(query, offset).norm(dim=-1), query.norm(dim=-1))
    torch.testing.assert_close(rotate(query[:, :, :1], 0), query[:, :, :1])


def test_rotation_keeps_half_precision() -> None:
    assert RotaryPositions(8)(random(1, 2, 300, 8).bfloat16(), 0).dtype == torch.bfloat16


def test_rotation_needs_pairs() -> None:
    with pytest.raises(AssertionError, match="pairs"):
        RotaryPositions(5)


def test_a_table_extended_in_inference_can_be_used_in_training() -> None:
    """After a validation with a long sentence, the next training step must work."""
    rotate = RotaryPositions(8)
    with torch.inference_mode():
        rotate(torch.ones(1, 1, 300, 8), 0)
    x = torch.ones(1, 1, 3, 8, requires_grad=True)
    rotate(x, 0).sum().backward()
    assert x.grad is not None


def test_an_extended_table_has_the_modules_type() -> None:
    positions = SinusoidalPositions(8).bfloat16()
    assert positions(torch.ones(1, 3, 8, dtype=torch.bfloat16)).dtype == torch.bfloat16
    assert positions(torch.ones(1, 300, 8, dtype=torch.bfloat16)).dtype == torch.bfloat16


# One-hot


@pytest.mark.parametrize("offset", [0, 2])
def test_a_one_hot_position_is_appended_and_multiplied(offset: int) -> None:
    """W[x_t; e_t] written out, where e_t is 1 at t and 0 elsewhere."""
    torch.manual_seed(0)
    positions = OneHotPositions(9, 4)
    x = random(2, 5, 4)
    position = F.one_hot(torch.arange(offset, offset + 5), 9).float()
    # [B, T, D] and [T, P] -> [B, T, D + P]; x [D, D + P] -> [B, T, D]
    appended = torch.cat((x, position.expand(2, 5, 9)), dim=-1)
    assert positions.matrix.shape == (4, 4 + 9)
    torch.testing.assert_close(positions(x, offset), appended @ positions.matrix.t())


def test_appending_and_multiplying_is_adding_a_learned_vector() -> None:
    """W[x_t; e_t] = W_I x_t + p_t for every W; if W_I is the identity, these are learned positions."""
    torch.manual_seed(0)
    appended, added = OneHotPositions(9, 4), LearnedPositions(9, 4)
    x = random(2, 5, 4)
    W_I, W_P = appended.matrix.split((4, 9), dim=1)
    torch.testing.assert_close(appended(x, 3), x @ W_I.t() + W_P.t()[3:8])
    with torch.no_grad():
        appended.words.weight.copy_(torch.eye(4))
        added.embedding.weight.copy_(W_P.t())
    torch.testing.assert_close(appended(x, 3), added(x, 3))


def test_one_hot_positions_are_limited() -> None:
    with pytest.raises(UserError, match="a sequence of 6 is longer than the 5 learned positions"):
        OneHotPositions(5, 4)(random(2, 3, 4), 3)


# Relative


@pytest.mark.parametrize("future", [True, False])
@pytest.mark.parametrize(("queries", "keys", "offset"), [(5, 5, 0), (1, 1, 0), (1, 7, 6), (2, 9, 7), (4, 11, 3)])
def test_relative_scores_by_the_formula(future: bool, queries: int, keys: int, offset: int) -> None:
    """q_t·a_{clip(s - t, -k, k)} / √d_k, computed separately for each t and s, with k = 2."""
    positions = RelativePositions(2, 4, future=future)
    assert positions.embedding.weight.shape == (5 if future else 3, 4)
    query = random(2, 3, queries, 4)
    actual = positions(query, keys, offset)
    assert actual.shape == (2, 3, queries, keys)
    for t in range(queries):
        for s in range(keys):
            distance = max(-2, min(2, s - (offset + t)))
            if future or distance <= 0:
                vector = positions.embedding.weight[2 + distance]
                torch.testing.assert_close(actual[:, :, t, s], query[:, :, t] @ vector / 2)


def test_relative_scores_at_an_offset_are_rows_of_those_at_all_positions() -> None:
    """Computing all positions at once and step by step has the same results, for any length."""
    positions = RelativePositions(16, 8, future=False)
    query = random(1, 2, 300, 8)
    whole = positions(query, 300, 0)
    torch.testing.assert_close(positions(query[:, :, 40:43], 43, 40), whole[:, :, 40:43, :43])
    torch.testing.assert_close(positions(query[:, :, 299:], 300, 299), whole[:, :, 299:])


def test_relative_scores_keep_half_precision() -> None:
    positions = RelativePositions(3, 8, future=True).bfloat16()
    assert positions(random(1, 2, 7, 8).bfloat16(), 7, 0).dtype == torch.bfloat16


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_both_ways_of_rotating_pairs_agree(dtype: torch.dtype) -> None:
    """On a CPU, pairs are multiplied as complex numbers; elsewhere, the formula is computed as it is written."""
    rotary = RotaryPositions(8).to(dtype)
    x = torch.randn(2, 3, 20, 8, generator=torch.Generator().manual_seed(0)).to(dtype).requires_grad_()
    sine, cosine = sinusoidal_table(20, 8).to(dtype).unflatten(1, (-1, 2)).unbind(-1)
    actual, expected = rotary(x, 0), rotated_pairs(x, sine, cosine)
    tolerance = 0.05 if dtype == torch.bfloat16 else 1e-5
    torch.testing.assert_close(actual, expected, atol=tolerance, rtol=tolerance)
    weights = torch.randn_like(expected)
    gradients = [torch.autograd.grad(y, x, weights)[0] for y in (actual, expected)]
    torch.testing.assert_close(*gradients, atol=tolerance, rtol=tolerance)
