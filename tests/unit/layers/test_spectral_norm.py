"""Weights divided by their largest singular value."""

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm

from dragoman.layers.spectral_norm import SpectralConvolution, SpectralEmbedding, SpectralLinear, SpectralNorm

LAYERS = [
    lambda: SpectralLinear(7, 12),
    lambda: SpectralLinear(12, 7, bias=False),
    lambda: SpectralConvolution(5, 8, 3),
    lambda: SpectralConvolution(5, 8, 1),
    lambda: SpectralEmbedding(6, 10),
]


def largest_singular_value(weight: torch.Tensor) -> float:
    return float(torch.linalg.matrix_norm(weight.detach().flatten(1).double(), ord=2))


@pytest.mark.parametrize("build", LAYERS)
def test_after_enough_iterations_the_spectral_norm_is_1(build: type[nn.Module]) -> None:
    torch.manual_seed(1)
    layer = build()
    assert isinstance(layer.norm, SpectralNorm)
    assert isinstance(layer.weight, torch.Tensor)
    for _ in range(500):
        layer.norm(layer.weight)
    assert largest_singular_value(layer.norm(layer.weight)) == pytest.approx(1, abs=1e-4)
    layer.eval()
    assert largest_singular_value(layer.norm(layer.weight)) == pytest.approx(1, abs=1e-4)


def test_it_equals_torchs_own_with_the_same_weights() -> None:
    torch.manual_seed(1)
    ours = SpectralConvolution(5, 8, 3)
    theirs = nn.Conv2d(5, 8, 3, padding=1)
    theirs.load_state_dict({"weight": ours.weight.detach().clone(), "bias": ours.bias.detach().clone()})  # type: ignore[union-attr]
    spectral_norm(theirs, n_power_iterations=200)
    x = torch.randn(2, 5, 6, 6)
    for _ in range(500):
        ours(x)
    actual, expected = ours(x), theirs(x)
    torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-5)
    (actual**2).sum().backward()
    (expected**2).sum().backward()
    torch.testing.assert_close(ours.weight.grad, theirs.parametrizations.weight.original.grad, atol=1e-4, rtol=1e-4)  # type: ignore[union-attr]


def test_the_gradient_is_that_of_the_division() -> None:
    torch.manual_seed(1)
    norm = SpectralNorm(4).double()
    weight = torch.randn(4, 3, dtype=torch.double, requires_grad=True)
    for _ in range(200):
        norm(weight)
    norm.eval()
    assert torch.autograd.gradcheck(lambda w: w / torch.linalg.matrix_norm(w, ord=2), (weight,))
    naive = torch.autograd.grad((weight / torch.linalg.matrix_norm(weight, ord=2)).sin().sum(), weight)
    torch.testing.assert_close(torch.autograd.grad(norm(weight).sin().sum(), weight), naive)


def test_only_training_changes_the_vector() -> None:
    torch.manual_seed(1)
    layer = SpectralLinear(5, 6)
    before = layer.norm.left.clone()
    layer.eval()
    layer(torch.randn(2, 5))
    assert torch.equal(layer.norm.left, before)
    layer.train()
    layer(torch.randn(2, 5))
    assert not torch.equal(layer.norm.left, before)
    assert layer.norm.left.norm() == pytest.approx(1)


def test_the_scale_of_the_vector_does_not_matter_in_evaluation() -> None:
    # A moving average of the vector is shorter than 1.
    torch.manual_seed(1)
    layer = SpectralLinear(5, 6).eval()
    expected = layer(torch.ones(1, 5))
    layer.norm.left.mul_(0.3)
    torch.testing.assert_close(layer(torch.ones(1, 5)), expected)
