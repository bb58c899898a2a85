"""Attention rollout: how much each patch of an image contributes to the state of the class token.

Source: Abnar and Zuidema, "Quantifying Attention Flow in Transformers" (2020), section 3; for images, Dosovitskiy et
al. (2020), appendix D.8.
"""

import numpy as np
from jaxtyping import Float
from torch import Tensor

from dragoman.inspection.capture import capture_images
from dragoman.models.vision import VisionTransformer


def attention_rollout(weights: Float[np.ndarray, "N H T S"]) -> Float[np.ndarray, "T S"]:
    """Return the product Ā_N ··· Ā_1 of the layers' matrices Ā = 0.5 A + 0.5 I, where A is the mean over the heads.

    The identity represents the residual connection. Rows sum to 1, as those of the weights do.

    Args:
        weights: attention weights of N layers, the first layer first; T = S positions.

    Example:
        >>> attention_rollout(np.array([[[[0.0, 1.0], [0.5, 0.5]]]]))
        array([[0.5 , 0.5 ],
               [0.25, 0.75]])
    """
    # [N, H, T, S] -> [N, T, S]; computed in float64, because there may be many layers
    layers = 0.5 * weights.mean(axis=1, dtype=np.float64) + 0.5 * np.eye(weights.shape[2])
    rollout = np.eye(weights.shape[2])
    for layer in layers:
        # [T, S] x [S, S] -> [T, S]
        rollout = layer @ rollout
    return rollout


def image_rollout(model: VisionTransformer, images: Float[Tensor, "B C H W"]) -> Float[np.ndarray, "B h w"]:
    """Return the rollout from the class token to each patch of each image, in the grid of the patches.

    The weights of the patches of an image and of the class token itself, which is left out, sum to 1.

    Args:
        model: the model, on any device and in any mode; it is in evaluation mode while it runs.
        images: numbers from -1 to 1.

    Raises:
        CorpusError: the images have another size or number of channels than those of the model.
    """
    grids = np.empty((len(images), model.grid, model.grid))
    for grid, captured in zip(grids, capture_images(model, images), strict=True):
        assert captured.encoder_self is not None
        # [T, T] -> [N] -> [h, w]: the class token is the first position
        grid[...] = attention_rollout(captured.encoder_self.weights)[0, 1:].reshape(grid.shape)
    return grids
