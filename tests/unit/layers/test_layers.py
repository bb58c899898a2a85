"""Norms, feed-forward networks, dropout and residuals against their formulas."""

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dragoman.layers.dropout import Dropout
from dragoman.layers.feed_forward import FeedForward, GatedFeedForward
from dragoman.layers.norms import LayerNorm, PostNorm, PreNorm, RMSNorm, TokenBatchNorm


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


# Feed-forward


@pytest.mark.parametrize(("name", "activation"), [("relu", F.relu), ("gelu", F.gelu)])
def test_feed_forward_is_equation_2(name: str, activation: Callable[[Tensor], Tensor]) -> None:
    layer = FeedForward(4, 10, activation=name, dropout=0.0)
    x = random(2, 3, 4)
    expected = activation(x @ layer.inner.weight.t() + layer.inner.bias) @ layer.outer.weight.t() + layer.outer.bias
    torch.testing.assert_close(layer(x), expected)


@pytest.mark.parametrize(("name", "activation"), [("geglu", F.gelu), ("swiglu", F.silu)])
def test_gated_feed_forward_is_equation_6(name: str, activation: Callable[[Tensor], Tensor]) -> None:
    layer = GatedFeedForward(4, 10, activation=name, dropout=0.0)
    x = random(2, 3, 4)
    gate = activation(x @ layer.gate.weight.t())
    torch.testing.assert_close(layer(x), (gate * (x @ layer.inner.weight.t())) @ layer.outer.weight.t())
    assert sum(p.numel() for p in layer.parameters()) == 3 * 4 * 10


def test_feed_forward_has_inner_dropout_in_training_only() -> None:
    torch.manual_seed(0)
    for build, name in ((FeedForward, "relu"), (GatedFeedForward, "swiglu")):
        layer = build(4, 10, activation=name, dropout=0.5)
        x = random(2, 3, 4)
        assert not layer(x).equal(layer(x))
        layer.eval()
        assert layer(x).equal(layer(x))


# Normalisation


def test_layer_norm_by_hand() -> None:
    norm = LayerNorm(6, eps=1e-6)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    x = random(2, 3, 6)
    centred = x - x.mean(-1, keepdim=True)
    expected = centred / (centred.square().mean(-1, keepdim=True) + 1e-6).sqrt() * norm.weight + norm.bias
    torch.testing.assert_close(norm(x), expected)
    assert norm(x, torch.zeros(2, 3, dtype=torch.bool)).equal(norm(x))


def test_rms_norm_by_hand() -> None:
    norm = RMSNorm(6, eps=1e-6)
    nn.init.normal_(norm.weight)
    x = random(2, 3, 6)
    torch.testing.assert_close(norm(x), x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * norm.weight)
    assert norm(x, torch.zeros(2, 3, dtype=torch.bool)).equal(norm(x))


REAL = torch.tensor([[True, True, True, True, False, False], [True, True, False, False, False, False]])


def test_batch_norm_is_over_real_tokens() -> None:
    norm, expected_norm = TokenBatchNorm(5), nn.BatchNorm1d(5)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    expected_norm.load_state_dict(norm.state_dict())
    x = 3 * random(2, 6, 5) + 1
    actual = norm(x, REAL)
    torch.testing.assert_close(actual[REAL], expected_norm(x[REAL]))
    assert actual[~REAL].eq(0).all()
    torch.testing.assert_close(norm.state_dict(), expected_norm.state_dict())
    torch.testing.assert_close(norm.running_mean, 0.1 * x[REAL].mean(0))


def test_batch_norm_ignores_padding() -> None:
    """Outputs, statistics and gradients do not depend on the values at padding or on its length."""
    x = random(2, 6, 5)
    cases = (
        (x, REAL),
        (torch.where(REAL.unsqueeze(-1), x, 1e3), REAL),
        (F.pad(x, (0, 0, 0, 3)), F.pad(REAL, (0, 3))),
    )
    results = []
    for numbers, real in cases:
        norm = TokenBatchNorm(5)
        leaf = numbers.clone().requires_grad_()
        output = norm(leaf, real)
        (output[real] * random(6, 5, seed=1)).sum().backward()
        assert leaf.grad is not None
        assert leaf.grad[~real].eq(0).all()
        results.append((output[real], leaf.grad[real], norm.running_mean, norm.running_var))
    torch.testing.assert_close(results[1], results[0])
    torch.testing.assert_close(results[2], results[0])


def test_batch_norm_in_evaluation_treats_tokens_separately() -> None:
    norm = TokenBatchNorm(5)
    norm(random(2, 6, 5) * 2 + 1, REAL)
    norm.eval()
    x = random(2, 6, 5, seed=1)
    whole = norm(x)
    torch.testing.assert_close(norm(x[:1, 2:3]), whole[:1, 2:3])
    torch.testing.assert_close(norm(x, REAL)[REAL], whole[REAL])


# Residuals


def test_post_norm_and_pre_norm_by_hand() -> None:
    x = random(2, 3, 6)
    norm = LayerNorm(6)
    nn.init.normal_(norm.weight)
    torch.testing.assert_close(PostNorm(norm, 0.0)(x, torch.sin), norm(x + x.sin()))
    torch.testing.assert_close(PreNorm(norm, 0.0)(x, torch.sin), x + norm(x).sin())


@pytest.mark.parametrize("arrangement", [PostNorm, PreNorm])
def test_residuals_drop_only_the_sublayer_and_pass_the_mask_to_the_norm(
    arrangement: type[PostNorm] | type[PreNorm],
) -> None:
    masks = []

    class RecordingNorm(nn.Module):
        def forward(self, x: Tensor, real: Tensor | None) -> Tensor:
            masks.append(real)
            return x

    torch.manual_seed(0)
    residual = arrangement(RecordingNorm(), 0.5)
    x = torch.ones(2, 6, 500)
    output = residual(x, lambda y: 3 * y, REAL)
    # 1 where the sub-layer's output 3 was dropped, 1 + 3/0.5 where it was kept
    assert set(output.unique().tolist()) == {1.0, 7.0}
    assert masks == [REAL]


# Dropout


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.9])
def test_dropout_keeps_the_right_share_and_the_expectation(p: float) -> None:
    torch.manual_seed(0)
    n = 1_000_003  # not a multiple of four
    output = Dropout(p)(torch.ones(n))
    kept = output != 0
    torch.testing.assert_close(output[kept], torch.full_like(output[kept], 1 / (1 - p)))
    six_sigma = 6 * math.sqrt(p * (1 - p) / n)
    assert kept.float().mean().item() == pytest.approx(1 - p, abs=six_sigma + 2**-16)


def test_dropout_draws_are_independent() -> None:
    """The four elements of a draw are kept with the right probability and are not correlated."""
    torch.manual_seed(0)
    kept = (Dropout(0.3)(torch.ones(400_000)) != 0).double().view(-1, 4)
    correlation = torch.corrcoef(kept.t()) - torch.eye(4)
    assert correlation.abs().max() < 6 / math.sqrt(100_000)
    assert kept.mean(0).sub(0.7).abs().max() < 6 * math.sqrt(0.21 / 100_000)


def test_dropout_accepts_every_size_and_type() -> None:
    torch.manual_seed(0)
    for shape in ((0,), (1,), (2, 3), (5, 1, 7)):
        for dtype in (torch.float32, torch.bfloat16, torch.float64):
            output = Dropout(0.5)(torch.ones(shape, dtype=dtype))
            assert output.shape == shape
            assert output.dtype == dtype
            assert set(output.flatten().tolist()) <= {0.0, 2.0}


def test_dropout_with_p_0_or_in_evaluation_is_the_identity() -> None:
    x = random(3, 4)
    assert Dropout(0.0)(x) is x
    assert Dropout(0.5).eval()(x) is x


def test_dropout_depends_on_the_seed() -> None:
    def draw(seed: int) -> Tensor:
        torch.manual_seed(seed)
        output: Tensor = Dropout(0.5)(torch.ones(100))
        return output

    assert draw(1).equal(draw(1))
    assert not draw(1).equal(draw(2))


def test_dropout_of_transposed_input() -> None:
    torch.manual_seed(0)
    x = random(40, 50).t()
    output = Dropout(0.5)(x)
    assert torch.where(output == 0, 0.0, 2 * x).equal(output)


def test_the_gradient_is_dropped_like_the_output() -> None:
    torch.manual_seed(0)
    x = random(100).requires_grad_()
    output = Dropout(0.25)(x)
    output.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad * x, output)
