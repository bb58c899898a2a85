"""Pictures and attention over them, from random numbers."""

import numpy as np
from jaxtyping import Float, UInt8

from dragoman.picture_page.data import LayerAttention, PictureAttention


def made_pictures(count: int = 3, height: int = 12, width: int = 8, colours: int = 3) -> UInt8[np.ndarray, "N h w C"]:
    """Return pictures of noise."""
    return np.random.default_rng(1).integers(0, 256, (count, height, width, colours), dtype=np.uint8)


def made_weights(*shape: int, seed: int = 2) -> Float[np.ndarray, "..."]:
    """Return attention weights, which sum to 1 over the last axis."""
    weights = np.random.default_rng(seed).random(shape) ** 4
    normalised: Float[np.ndarray, ...] = weights / weights.sum(axis=-1, keepdims=True)
    return normalised


def made_picture_attention(*, label: str = "first", layer: str = "fine") -> list[PictureAttention]:
    """Return two pictures of 12 x 8 pixels: one with two layers of two heads and one, one with a layer of one head."""
    first, second = made_pictures(2)
    fine = LayerAttention(
        name=layer,
        weights=made_weights(2, 24, 24),
        grid=(6, 4),
        key_grid=(6, 4),
        class_token=made_weights(2, 24, seed=3),
    )
    coarse = LayerAttention(name="coarse", weights=made_weights(1, 24, 6, seed=4), grid=(6, 4), key_grid=(3, 2))
    only = LayerAttention(name="only", weights=made_weights(1, 6, 6, seed=5), grid=(3, 2), key_grid=(3, 2))
    return [
        PictureAttention(picture=first, label=label, layers=(fine, coarse)),
        PictureAttention(picture=second, label="second", layers=(only,)),
    ]
