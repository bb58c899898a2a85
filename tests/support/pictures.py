"""Small pictures: files, and sets of random ones."""

from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from dragoman.data.picture_reading import PictureSet


def gradient(width: int, height: int, channels: int = 3) -> npt.NDArray[np.uint8]:
    """Return a picture [height, width, channels] whose pixels all differ, as far as possible."""
    return (np.arange(width * height * channels) * 7 % 256).astype(np.uint8).reshape(height, width, channels)


def save(path: Path, image: npt.NDArray[Any] | Image.Image, **options: Any) -> Path:
    """Write a picture, in the format of the file's name, and its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    picture = (
        image
        if isinstance(image, Image.Image)
        else Image.fromarray(image[..., 0] if image.shape[-1] == 1 and image.ndim == 3 else image)
    )
    picture.save(path, **options)
    return path


def png(image: npt.NDArray[np.uint8]) -> bytes:
    """Return a picture as a PNG file."""
    file = BytesIO()
    Image.fromarray(image).save(file, "PNG")
    return file.getvalue()


def picture_set(count: int, size: int = 4, channels: int = 3, labels: int = 0, seed: int = 0) -> PictureSet:
    """Return random pictures; the first pixels are the number of the picture."""
    draw = np.random.default_rng(seed)
    images = draw.integers(256, size=(count, size, size, channels), dtype=np.uint8)
    images[:, 0, 0, 0], images[:, 0, 1, 0] = np.arange(count) % 256, np.arange(count) // 256
    return PictureSet(
        images=images,
        labels=np.arange(count) % labels if labels else None,
        label_names=tuple(f"label {i}" for i in range(labels)),
        names=tuple(f"{i}.png" for i in range(count)),
    )
