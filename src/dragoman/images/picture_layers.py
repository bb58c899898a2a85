"""Attention of models of pictures in the form that a page and a figure take (`dragoman.picture_page.data`)."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float

from dragoman.images.picture_generator import AttendingPictures, Network, Pictures
from dragoman.picture_page.data import LayerAttention, PictureAttention


def attention_of_gan(attending: Mapping[Network, AttendingPictures], labels: Sequence[str]) -> list[PictureAttention]:
    """Return pictures with a layer of one head for each network.

    Args:
        attending: attention of one network or both over the same pictures.
        labels: text that names each picture.
    """
    pictures = next(iter(attending.values())).pictures
    return [
        PictureAttention(
            picture=picture,
            label=labels[i],
            layers=tuple(
                _map_layer(f"{network} (γ = {of.gamma:.3f})", of.weights[i]) for network, of in attending.items()
            ),
        )
        for i, picture in enumerate(pictures)
    ]


def attention_of_vision(
    pictures: Pictures, weights: Float[np.ndarray, "N L H T T"], labels: Sequence[str]
) -> list[PictureAttention]:
    """Return pictures with all layers of a vision Transformer.

    Args:
        pictures: the pictures [N, H, W, C].
        weights: attention weights, see `PictureClassifier.attend`. Those on the class token are left out.
        labels: text that names each picture.
    """
    # Position 0 is the class token; the others are a square of patches.
    side = round((weights.shape[-1] - 1) ** 0.5)
    return [
        PictureAttention(
            picture=picture,
            label=label,
            layers=tuple(
                LayerAttention(
                    name=str(number),
                    # [H, T, T] -> [H, T - 1, T - 1] and [H, T - 1]
                    weights=layer[:, 1:, 1:],
                    class_token=layer[:, 0, 1:],
                    grid=(side, side),
                    key_grid=(side, side),
                )
                for number, layer in enumerate(layers, 1)
            ),
        )
        for picture, layers, label in zip(pictures, weights, labels, strict=True)
    ]


def _map_layer(name: str, weights: Float[np.ndarray, "h w h w"]) -> LayerAttention:
    height, width, *_ = weights.shape
    # [h, w, h, w] -> [1, h*w, h*w]
    rows = weights.reshape(1, height * width, height * width)
    return LayerAttention(name=name, weights=rows, grid=(height, width), key_grid=(height, width))
