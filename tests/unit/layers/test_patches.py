"""Images as sequences of patches."""

import pytest
import torch
import torch.nn.functional as F

from dragoman.layers.patches import PatchEmbedding


@pytest.mark.parametrize(
    ("channels", "patch", "height", "width"), [(3, 4, 8, 8), (1, 2, 6, 10), (5, 3, 3, 9), (2, 1, 4, 3)]
)
def test_the_embedding_equals_a_convolution_with_stride(channels: int, patch: int, height: int, width: int) -> None:
    torch.manual_seed(0)
    embedding = PatchEmbedding(channels, patch, d_model=7).double()
    images = torch.randn(2, channels, height, width, dtype=torch.float64)
    # [D, C*P*P] -> [D, C, P, P]
    kernels = embedding.projection.weight.view(7, channels, patch, patch)
    # [B, D, H/P, W/P] -> [B, D, N] -> [B, N, D]
    expected = F.conv2d(images, kernels, embedding.projection.bias, stride=patch).flatten(2).mT
    torch.testing.assert_close(embedding(images), expected, rtol=1e-12, atol=1e-12)


def test_an_embedding_depends_on_its_own_patch_only() -> None:
    embedding = PatchEmbedding(channels=1, patch=2, d_model=5)
    images = torch.zeros(1, 1, 6, 6)
    images[0, 0, 3, 4] = 1.0
    changed = (embedding(images) != embedding(torch.zeros(1, 1, 6, 6))).any(dim=2)
    # Pixel (3, 4) is in the patch of row 1 and column 2 of a grid of 3 x 3.
    assert changed.nonzero().tolist() == [[0, 5]]
