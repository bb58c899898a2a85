"""Variants of the Transformer that reads images: the paper's choices, and one for each choice of a setting."""

from dataclasses import replace
from typing import Any

from dragoman.models.config.vision import VisionConfig

_PAPER = VisionConfig(image_size=8, patch=4, labels=("one", "two", "three"), layers=2, d_model=12, heads=2, d_ff=20)

_CHOICES: dict[str, dict[str, Any]] = {
    "paper": {},
    "grey, one label": {"channels": 1, "labels": ("only",), "image_size": 12},
    "no labels": {"labels": (), "patch": 2},
    "post-norm, relu": {"norm_placement": "post", "activation": "relu", "attention_bias": False},
    "rms, swiglu, rotary": {"norm": "rms", "activation": "swiglu", "positions": "rotary"},
    "relative": {"positions": "relative", "max_distance": 3, "d_k": 4, "d_v": 3},
    "no positions, one patch": {"positions": "none", "patch": 8, "attention_scale": 0.7},
}

VARIANTS = {name: replace(_PAPER, **choices) for name, choices in _CHOICES.items()}
