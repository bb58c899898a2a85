"""Attention over pictures, as NumPy arrays.

Letters: H heads, Q queries (positions of the picture), S keys, C colours.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from dragoman.picture_page.pixels import Pixels, check_maps, check_pictures


@dataclass(frozen=True, kw_only=True)
class LayerAttention:
    """Attention of one layer over one picture.

    Queries and keys are positions of grids over the picture, row by row from the top left corner. The grid of the keys
    may be coarser than that of the queries.

    Attributes:
        name: name of the layer.
        weights: [H, Q, S], weights from each position to each key; 0 or more. They sum to less than 1 if a class token
            is also attended to, whose weight is left out.
        grid: height and width of the grid of positions, Q = height x width.
        key_grid: height and width of the grid of keys, S = height x width.
        class_token: [H, S], weights from the class token of a vision Transformer to each key; None if there is none.
    """

    name: str
    weights: Float[np.ndarray, "H Q S"]
    grid: tuple[int, int]
    key_grid: tuple[int, int]
    class_token: Float[np.ndarray, "H S"] | None = None

    def __post_init__(self) -> None:
        heads, queries, keys = self.weights.shape
        assert heads >= 1
        assert queries == self.grid[0] * self.grid[1], (self.weights.shape, self.grid)
        assert keys == self.key_grid[0] * self.key_grid[1], (self.weights.shape, self.key_grid)
        assert self.class_token is None or self.class_token.shape == (heads, keys), self.class_token.shape
        for weights in (self.weights, self.class_token):
            if weights is not None:
                check_maps(weights)


@dataclass(frozen=True, kw_only=True)
class PictureAttention:
    """A picture and the attention of a model over it.

    Attributes:
        picture: [h, w, C], uint8, 1 or 3 colours.
        label: text that names the picture, such as its class.
        layers: attention of each layer, at least one.
    """

    picture: Pixels
    label: str
    layers: tuple[LayerAttention, ...]

    def __post_init__(self) -> None:
        check_pictures(self.picture[None])
        assert self.layers
