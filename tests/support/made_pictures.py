"""Pictures and attention over them, from random numbers."""

import numpy as np
from jaxtyping import Float, UInt8


def made_pictures(count: int = 3, height: int = 12, width: int = 8, colours: int = 3) -> UInt8[np.ndarray, "N h w C"]:
    """Return pictures of noise."""
    return np.random.default_rng(1).integers(0, 256, (count, height, width, colours), dtype=np.uint8)


def made_weights(*shape: int, seed: int = 2) -> Float[np.ndarray, "..."]:
    """Return attention weights, which sum to 1 over the last axis."""
    weights = np.random.default_rng(seed).random(shape) ** 4
    normalised: Float[np.ndarray, ...] = weights / weights.sum(axis=-1, keepdims=True)
    return normalised
