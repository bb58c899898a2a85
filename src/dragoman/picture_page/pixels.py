"""Arrays of pixels: checks, conversion to PNG, heat maps over pictures.

Letters: N pictures, h height, w width, C colours (1 for grey, 3 for red, green and blue).
"""

import io
from pathlib import Path

import numpy as np
from jaxtyping import Float, UInt8
from PIL import Image

from dragoman.errors import CorpusError, SettingsError
from dragoman.files import write_atomically

Pixels = UInt8[np.ndarray, "h w C"]
# Brightness of a picture under a heat map, as a share of its own.
DIMMED = 0.4
# Red, green and blue of the heat map at equal steps: matplotlib's colour map inferno, whose lightness is uniform.
HEAT = (
    (0, 0, 4),
    (31, 12, 72),
    (85, 15, 109),
    (136, 34, 106),
    (186, 54, 85),
    (227, 89, 51),
    (249, 140, 10),
    (249, 201, 50),
    (252, 255, 164),
)


def check_pictures(pictures: UInt8[np.ndarray, "N h w C"]) -> None:
    """Check pictures as arrays of pixels.

    Raises:
        CorpusError: if there are no pictures or no pixels.
    """
    assert pictures.dtype == np.uint8, f"expected pixels as uint8, 0 to 255, found {pictures.dtype}"
    assert pictures.ndim == 4, f"expected pictures [N, h, w, C], found {pictures.shape}"
    assert pictures.shape[3] in (1, 3), f"expected 1 or 3 colours, found {pictures.shape[3]}"
    if 0 in pictures.shape:
        raise CorpusError(f"there are no pictures to draw: {' x '.join(map(str, pictures.shape))}")


def check_maps(maps: Float[np.ndarray, "..."]) -> None:
    """Raise CorpusError if a weight is negative or not finite."""
    if not (np.isfinite(maps).all() and (maps >= 0).all()):
        raise CorpusError("attention weights are not finite, or below 0: is the model damaged?")


def as_rgb(pictures: UInt8[np.ndarray, "... C"]) -> UInt8[np.ndarray, "... 3"]:
    """Return pictures with three colours; grey is repeated."""
    return np.repeat(pictures, 3, axis=-1) if pictures.shape[-1] == 1 else pictures


def as_png(picture: Pixels) -> bytes:
    """Return a picture as PNG. Equal pictures give equal bytes."""
    data = io.BytesIO()
    Image.fromarray(picture[:, :, 0] if picture.shape[-1] == 1 else picture).save(data, format="png", optimize=True)
    return data.getvalue()


def save_png(picture: Pixels, path: Path) -> None:
    """Write a picture as a PNG file, atomically.

    Raises:
        SettingsError: if the name does not end in .png.
        OSError: if the file cannot be written.
    """
    if path.suffix != ".png":
        raise SettingsError(f"{path}: choose a name that ends in .png")
    write_atomically(path, as_png(picture))


def enlarge(pictures: UInt8[np.ndarray, "N h w C"], scale: int) -> UInt8[np.ndarray, "N H W C"]:
    """Return pictures in which each pixel is a square of `scale` x `scale` pixels."""
    return pictures.repeat(scale, axis=1).repeat(scale, axis=2)


def upsampled(weights: Float[np.ndarray, "c d"], height: int, width: int) -> Float[np.ndarray, "height width"]:
    """Return a map of weights at the size of a picture, by bilinear interpolation between the centres of its cells."""
    resized = Image.fromarray(weights.astype(np.float32)).resize((width, height), Image.Resampling.BILINEAR)
    return np.asarray(resized, dtype=np.float64)


def heat_map(picture: Pixels, weights: Float[np.ndarray, "c d"]) -> UInt8[np.ndarray, "h w 3"]:
    """Return a map of weights as colours over a dimmed picture.

    Args:
        picture: the picture, of any size.
        weights: a map over the picture; its largest value has the brightest colour, and its smallest value, even if
            it is not 0, has none, so that the picture is visible under a map of similar values.
    """
    height, width, _ = picture.shape
    largest = weights.max()
    # [h, w]: 0 to 1
    heat = upsampled(weights / largest if largest > 0 else weights, height, width)
    steps = np.linspace(0, 1, len(HEAT))
    # [h, w, 3]
    colours = np.stack([np.interp(heat, steps, [colour[channel] for colour in HEAT]) for channel in range(3)], axis=-1)
    grey = as_rgb(picture).astype(np.float64).mean(axis=-1, keepdims=True)
    spread = heat - heat.min()
    # The square root makes weights of a tenth visible beside a weight of one.
    opacity = np.sqrt(spread / max(spread.max(), 1e-9))[:, :, None] * 0.8
    mixed = (1 - opacity) * DIMMED * grey + opacity * colours
    return np.clip(np.rint(mixed), 0, 255).astype(np.uint8)
