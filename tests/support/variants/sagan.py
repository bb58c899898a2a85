"""Variants of the self-attention GAN: one for each choice of a setting."""

from dataclasses import replace
from typing import Any

from dragoman.models.config.sagan import SaganConfig

_SMALL = SaganConfig(size=16, channels=3, width=8, latent=12, attention=8, labels=("a", "b", "c"))

_CHOICES: dict[str, dict[str, Any]] = {
    "small": {},
    "no attention": {"attention": None},
    "no labels": {"labels": ()},
    "grey, 32x32": {"size": 32, "attention": 16, "channels": 1},
    "64x64, attention at 32x32": {"size": 64, "attention": 32, "width": 16},
}

VARIANTS = {name: replace(_SMALL, **choices) for name, choices in _CHOICES.items()}
