"""Differentiable augmentation of pictures (Zhao et al., "Differentiable Augmentation for Data-Efficient GAN Training").

Real and generated pictures are changed in the same random ways before the discriminator reads them, which makes a small
training set last longer. The gradient of the generator flows through the changes.
"""

from collections.abc import Callable, Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

# Largest shift and size of the square that is cut out, as fractions of the picture (Zhao et al. 2020, section 4).
LARGEST_SHIFT, CUT_OUT = 1 / 8, 1 / 2


def color(images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B C H W"]:
    """Change brightness by up to 0.5, saturation by a factor of up to 2, and contrast by a factor from 0.5 to 1.5."""
    # 3 x [B, 1, 1, 1]
    brightness, saturation, contrast = torch.rand(3, len(images), 1, 1, 1, device=images.device)
    images = images + (brightness - 0.5)
    grey = images.mean(dim=1, keepdim=True)
    images = grey + 2 * saturation * (images - grey)
    mean = images.mean(dim=(1, 2, 3), keepdim=True)
    return mean + (0.5 + contrast) * (images - mean)


def translation(images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B C H W"]:
    """Shift by up to an eighth of height and width; what enters repeats the edge."""
    B, _, H, W = images.shape
    shifted = images
    for dim, size in ((2, H), (3, W)):
        most = int(size * LARGEST_SHIFT + 0.5)
        shift = torch.randint(-most, most + 1, (B, 1), device=images.device)
        # [S] + [B, 1] -> [B, S]: the row or column that comes to each place
        origin = torch.arange(size, device=images.device) + shift
        # [B, S] -> [B, 1, S, 1] or [B, 1, 1, S] -> [B, C, H, W]
        index = origin.clamp(0, size - 1).view((B, 1, size, 1) if dim == 2 else (B, 1, 1, size))
        shifted = shifted.gather(dim, index.expand_as(shifted))
    return shifted


def cutout(images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B C H W"]:
    """Set a square of half the height and width, at a random place, to 0."""
    B, _, H, W = images.shape
    inside = []
    for size in (H, W):
        side = int(size * CUT_OUT + 0.5)
        # The square may lie partly outside the picture.
        start = torch.randint(size + (1 - side % 2), (B, 1), device=images.device) - side // 2
        place = torch.arange(size, device=images.device)
        # [S] >= [B, 1] -> [B, S]
        inside.append((place >= start) & (place < start + side))
    # [B, H, 1] & [B, 1, W] -> [B, H, W] -> [B, 1, H, W]
    cut = (inside[0].unsqueeze(2) & inside[1].unsqueeze(1)).unsqueeze(1)
    return images.masked_fill(cut, 0.0)


# By their names in the setting training.augmentation, in the order in which they are applied.
AUGMENTATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "color": color,
    "translation": translation,
    "cutout": cutout,
}


def augment(images: Float[Tensor, "B C H W"], names: Sequence[str]) -> Float[Tensor, "B C H W"]:
    """Change each picture at random, in the ways of `AUGMENTATIONS` that are named.

    Args:
        images: pictures with values from -1 to 1; the changed ones may leave this range.
        names: names of augmentations.
    """
    for name, change in AUGMENTATIONS.items():
        if name in names:
            images = change(images)
    return images
