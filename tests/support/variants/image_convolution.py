"""Variants of the convolutional classifier of images."""

from dataclasses import replace
from typing import Any

from dragoman.models.config.image_convolution import ImageConvolutionConfig

_SMALL = ImageConvolutionConfig(image_size=8, labels=("one", "two", "three"), blocks=2, width=8)

_CHOICES: dict[str, dict[str, Any]] = {
    "small": {},
    "grey, odd size": {"channels": 1, "image_size": 9, "dropout": 0.0},
    "down to one pixel": {"blocks": 3, "labels": ("only",)},
    "one block": {"blocks": 1, "width": 16},
}

VARIANTS = {name: replace(_SMALL, **choices) for name, choices in _CHOICES.items()}
