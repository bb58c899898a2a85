"""Variants of the convolutional model."""

from dataclasses import replace
from typing import Any

from dragoman.models.config.convolutional import ConvolutionalConfig
from tests.support.variants.sizes import LONGEST, V

_SMALL = ConvolutionalConfig(
    source_vocabulary=V,
    target_vocabulary=V,
    encoder_layers=2,
    decoder_layers=2,
    d_model=12,
    max_positions=LONGEST,
)

_CHOICES: dict[str, dict[str, Any]] = {
    "paper": {},
    "one token": {"kernel_width": 1, "tied_embeddings": "two-way"},
    "five tokens": {"kernel_width": 5, "tied_embeddings": "none", "d_model": 11},
    "one block": {"encoder_layers": 1, "decoder_layers": 1},
    "deep": {"encoder_layers": 1, "decoder_layers": 3, "kernel_width": 5},
}

VARIANTS = {name: replace(_SMALL, **choices) for name, choices in _CHOICES.items()}
