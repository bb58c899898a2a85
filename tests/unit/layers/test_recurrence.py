"""The parts of recurrent models: reversed sentences, attention weights, repeated products and cells."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from dragoman.attention import AttentionMask
from dragoman.layers import recurrent_attention
from dragoman.layers.recurrence import RepeatedProduct, gru_cell, last_states, lstm_cell, reverse_sentences
from dragoman.layers.recurrent_attention import AdditiveScore, AttentionWeights, RecurrentAttention


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@given(st.lists(st.integers(0, 6), min_size=1, max_size=4))
def test_reversed_sentences_and_last_states(lengths: list[int]) -> None:
    x, lengths_tensor = random(len(lengths), 6, 2), torch.tensor(lengths)
    reversed_x, last = reverse_sentences(x, lengths_tensor), last_states(x, lengths_tensor)
    for row, length in enumerate(lengths):
        assert reversed_x[row, :length].equal(x[row, :length].flip(0))
        assert reversed_x[row, length:].equal(x[row, length:])
        assert last[row].equal(x[row, length - 1] if length else torch.zeros(2, dtype=x.dtype))
    assert reverse_sentences(reversed_x, lengths_tensor).equal(x)


def test_padding_has_no_weight_and_weights_are_never_nan() -> None:
    mask = AttentionMask.padding(torch.tensor([[True, True, False], [False] * 3]))
    scores = random(2, 4, 3).requires_grad_()
    weights = AttentionWeights()(scores, mask)
    torch.testing.assert_close(weights[0, :, :2], scores[0, :, :2].softmax(-1))
    assert weights[0, :, 2].eq(0).all()
    assert weights[1].eq(0).all()
    (gradient,) = torch.autograd.grad((weights * random(2, 4, 3, seed=1)).sum(), scores)
    assert gradient[0, :, :2].ne(0).all()
    assert gradient[1].eq(0).all()
    # Intermediate results of the backward pass are not NaN either.
    with pytest.warns(UserWarning, match="Anomaly Detection"), torch.autograd.detect_anomaly():
        AttentionWeights()(scores, mask).sum().backward()


def test_additive_scores_in_chunks_of_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    attention = RecurrentAttention(AdditiveScore(6), 6).double()
    source = attention.project_source(
        random(2, 5, 6), AttentionMask.padding(torch.tensor([[True] * 5, [True] * 3 + [False] * 2]))
    )
    u = random(2, 7, 6, seed=1)
    expected = attention.unroll(source, positions=7)(u)
    monkeypatch.setattr(recurrent_attention, "ADDITIVE_CHUNK", 3 * source.keys.numel())
    torch.testing.assert_close(attention.unroll(source, positions=7)(u), expected)


def repeated(matrix: Tensor, added: Tensor, x: Tensor) -> Tensor:
    """Return the result of a chain in which each product depends on the previous one."""
    product, y = RepeatedProduct(matrix, added), x
    for _ in range(len(added)):
        y = product(y).tanh()
    return y


@pytest.mark.parametrize(("matrix", "rows"), [((3, 3), (2,)), ((2, 3, 3), (2, 1)), ((3, 3), (2, 2))], ids=str)
def test_repeated_products_gradient(matrix: tuple[int, ...], rows: tuple[int, ...]) -> None:
    inputs = (random(*matrix), random(4, *rows, 3, seed=1), random(*rows, 3, seed=2))
    for tensor in inputs:
        tensor.requires_grad_()
    assert torch.autograd.gradcheck(repeated, inputs)
    # With some of the inputs constant.
    assert torch.autograd.gradcheck(lambda added: repeated(inputs[0].detach(), added, inputs[2]), inputs[1])
    assert torch.autograd.gradcheck(lambda factor: repeated(factor, inputs[1].detach(), inputs[2].detach()), inputs[0])


@pytest.mark.parametrize(("cell", "gates", "parts"), [(lstm_cell, 4, 2), (gru_cell, 3, 1)])
def test_cells_gradient(cell: Callable[..., tuple[Tensor, ...]], gates: int, parts: int) -> None:
    inputs = [random(2, 3 * gates), random(2, 3 * gates, seed=1), *(random(2, 3, seed=2 + i) for i in range(parts))]
    for tensor in inputs:
        tensor.requires_grad_()
    assert torch.autograd.gradcheck(lambda x, h, *state: cell(x, h, state), inputs)
