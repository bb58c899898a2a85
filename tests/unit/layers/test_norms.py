"""The norms compute the equations of docs/formulas.md, including where epsilon is added and which variance is used."""

import torch
from torch import Tensor

from dragoman.layers.norms import LayerNorm, RMSNorm, TokenBatchNorm
from dragoman.models.config.layers import NORM_EPSILON

# Small enough for epsilon to matter.
SCALE = 3e-3


def tokens(count: int, features: int) -> Tensor:
    generator = torch.Generator().manual_seed(3)
    return SCALE * (torch.randn(count, features, generator=generator) + 0.5)


def with_weights(norm: LayerNorm | RMSNorm | TokenBatchNorm) -> None:
    """Replace the initial ones and zeros."""
    with torch.no_grad():
        for parameter in norm.parameters():
            parameter.copy_(torch.linspace(0.5, 2.0, parameter.numel()))


def test_layer_norm_has_a_biased_variance_and_epsilon_inside_the_root() -> None:
    norm, x = LayerNorm(6, eps=NORM_EPSILON), tokens(5, 6)
    with_weights(norm)
    mean = x.mean(dim=-1, keepdim=True)
    variance = ((x - mean) ** 2).sum(dim=-1, keepdim=True) / 6
    torch.testing.assert_close(norm(x), norm.weight * (x - mean) / (variance + 1e-6).sqrt() + norm.bias)


def test_rms_norm_has_epsilon_inside_the_root_and_no_mean() -> None:
    norm, x = RMSNorm(6, eps=NORM_EPSILON), tokens(5, 6)
    with_weights(norm)
    torch.testing.assert_close(norm(x), norm.weight * x / ((x**2).mean(dim=-1, keepdim=True) + 1e-6).sqrt())


def test_batch_norm_has_the_statistics_of_real_tokens_in_training_and_their_averages_after() -> None:
    norm, x = TokenBatchNorm(6), tokens(8, 6).view(2, 4, 6)
    with_weights(norm)
    real = torch.tensor([[True, True, True, False], [True, True, False, False]])
    counted = x[real]
    mean = counted.mean(dim=0)
    variance = ((counted - mean) ** 2).sum(dim=0) / 5
    expected = norm.weight * (counted - mean) / (variance + 1e-5).sqrt() + norm.bias
    output = norm(x, real)
    torch.testing.assert_close(output[real], expected)
    assert not output[~real].any()
    norm.eval()
    # The averages start at 0 and 1; momentum is 0.1, and the variance is the unbiased one.
    averages = 0.1 * mean, 0.9 + 0.1 * variance * 5 / 4
    later = norm.weight * (counted - averages[0]) / (averages[1] + 1e-5).sqrt() + norm.bias
    torch.testing.assert_close(norm(x, real)[real], later)
