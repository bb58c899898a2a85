"""Self-attention over the positions of a feature map."""

import pytest
import torch

from dragoman.attention import MultiHeadAttention
from dragoman.layers.map_attention import MapAttention


def test_at_first_it_returns_its_input_exactly() -> None:
    x = torch.randn(2, 16, 5, 3)
    assert torch.equal(MapAttention(16)(x), x)


def test_it_equals_the_attention_of_sequences_on_flattened_positions() -> None:
    torch.manual_seed(1)
    attention = MapAttention(32).eval()
    sequences = MultiHeadAttention(32, 1, d_k=4, d_v=4, scale=1.0)
    with torch.no_grad():
        attention.gamma.fill_(0.7)
        for name in ("query", "key", "value", "output"):
            ours = getattr(attention, name)
            getattr(sequences, name).weight.copy_(ours.norm(ours.weight))
    x = torch.randn(2, 32, 4, 6)
    # [B, C, H, W] -> [B, H*W, C]
    rows = x.flatten(2).transpose(1, 2)
    expected = (x.flatten(2) + 0.7 * sequences(rows, rows).transpose(1, 2)).view_as(x)
    torch.testing.assert_close(attention(x), expected, atol=1e-5, rtol=1e-5)


def test_it_equals_the_equations_of_the_paper() -> None:
    torch.manual_seed(1)
    attention = MapAttention(16).double().eval()
    with torch.no_grad():
        attention.gamma.fill_(-0.5)
    W_f, W_g, W_h, W_v = (
        layer.norm(layer.weight) for layer in (attention.query, attention.key, attention.value, attention.output)
    )
    x = torch.randn(1, 16, 3, 3, dtype=torch.double)
    positions = x[0].flatten(1)
    f, g, h = W_f @ positions, W_g @ positions, W_h @ positions
    expected = positions.clone()
    for j in range(9):
        s = torch.stack([f[:, j] @ g[:, i] for i in range(9)])
        beta = s.exp() / s.exp().sum()
        expected[:, j] += -0.5 * (W_v @ sum(beta[i] * h[:, i] for i in range(9)))
    torch.testing.assert_close(attention(x)[0].flatten(1), expected)


def test_gradients() -> None:
    torch.manual_seed(1)
    attention = MapAttention(8).double().eval()
    with torch.no_grad():
        attention.gamma.fill_(0.3)
    x = torch.randn(1, 8, 2, 3, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(attention, (x,))


def test_gamma_has_a_gradient_at_0() -> None:
    torch.manual_seed(1)
    attention = MapAttention(8)
    attention(torch.randn(2, 8, 4, 4)).sin().sum().backward()
    assert attention.gamma.grad is not None
    assert attention.gamma.grad != 0


def test_the_width_must_be_a_multiple_of_8() -> None:
    with pytest.raises(AssertionError, match="multiple of 8"):
        MapAttention(12)
