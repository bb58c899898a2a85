"""Batch normalisation whose gain and bias depend on a label."""

import torch
from torch import nn

from dragoman.layers.conditional_norm import ConditionalBatchNorm


def test_with_one_label_it_equals_batch_normalisation() -> None:
    torch.manual_seed(1)
    ours, theirs = ConditionalBatchNorm(5, 1), nn.BatchNorm2d(5)
    with torch.no_grad():
        for mine, other in ((ours.gain, theirs.weight), (ours.bias, theirs.bias)):
            mine.normal_()
            other.copy_(mine[0])
    label = torch.zeros(4, dtype=torch.int64)
    for _ in range(2):
        x = torch.randn(4, 5, 3, 3) * 2 + 1
        torch.testing.assert_close(ours(x, label), theirs(x))
    ours.eval()
    theirs.eval()
    torch.testing.assert_close(ours(x, label), theirs(x))


def test_each_picture_has_the_gain_and_the_bias_of_its_label() -> None:
    torch.manual_seed(1)
    norm = ConditionalBatchNorm(3, 4)
    with torch.no_grad():
        norm.gain.normal_()
        norm.bias.normal_()
    x = torch.randn(6, 3, 2, 2)
    label = torch.tensor([3, 0, 1, 1, 2, 3])
    normalised = nn.BatchNorm2d(3, affine=False)(x)
    actual = norm(x, label)
    for i, number in enumerate(label):
        expected = norm.gain[number][:, None, None] * normalised[i] + norm.bias[number][:, None, None]
        torch.testing.assert_close(actual[i], expected)
