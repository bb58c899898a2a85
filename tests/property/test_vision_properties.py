"""Properties of the Transformer that reads images, for generated images and permutations."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from dragoman.models.config.vision import VisionConfig
from dragoman.models.vision import VisionTransformer, build_vision

CONFIG = VisionConfig(
    image_size=12, patch=4, channels=2, labels=("a", "b", "c"), layers=2, d_model=12, heads=2, d_ff=20
)


def model_and_images(seed: int) -> tuple[VisionTransformer, Tensor]:
    torch.manual_seed(seed)
    model = build_vision(CONFIG).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model, torch.randn(2, 2, 12, 12, dtype=torch.float64)


def with_patches_in_order(images: Tensor, order: Tensor) -> Tensor:
    # [B, C, 12, 12] -> [B, C, 3, 4, 3, 4] -> [B, C, 3, 3, 4, 4] -> [B, C, 9, 4, 4]
    patches = images.unflatten(3, (3, 4)).unflatten(2, (3, 4)).transpose(3, 4).flatten(2, 3)[:, :, order]
    # [B, C, 9, 4, 4] -> [B, C, 3, 3, 4, 4] -> [B, C, 3, 4, 3, 4] -> [B, C, 12, 12]
    return patches.unflatten(2, (3, 3)).transpose(3, 4).flatten(4, 5).flatten(2, 3)


@torch.no_grad()
@given(seed=st.integers(0, 1000), order=st.permutations(range(9)))
def test_logits_do_not_change_if_patches_are_permuted_with_their_positions(seed: int, order: list[int]) -> None:
    model, images = model_and_images(seed)
    expected = model(images)
    moved = with_patches_in_order(images, torch.tensor(order))
    if order != sorted(order):
        assert not torch.allclose(model(moved), expected, rtol=1e-9, atol=1e-9)
    assert model.embedding.positions is not None
    table = model.embedding.positions.embedding.weight
    # The first row is the position of the class token.
    table.copy_(table[torch.tensor([0, *(1 + patch for patch in order)])])
    torch.testing.assert_close(model(moved), expected, rtol=1e-9, atol=1e-9)
