"""Variants of the decoder-only translation model: full attention, and local and compressed attention."""

from dataclasses import replace
from typing import Any

from dragoman.models.config.decoder_only import DecoderOnlyConfig
from tests.support.variants.sizes import LONGEST, V

_FULL = DecoderOnlyConfig(source_vocabulary=V, target_vocabulary=V, layers=2, d_model=12, heads=2, d_ff=20)

_CHOICES: dict[str, dict[str, Any]] = {
    "full": {},
    "learned": {"positions": "learned", "max_positions": 2 * LONGEST, "attention_bias": True},
    "relative, post-norm": {"positions": "relative", "max_distance": 3, "norm_placement": "post"},
    "sinusoidal, untied": {"positions": "sinusoidal", "tied_embeddings": "none", "norm": "rms"},
    "local and compressed": {"attention_pattern": ("local", "compressed"), "block": 6, "compression": 2},
    "compressed and full": {
        "attention_pattern": ("compressed", "full"),
        "positions": "none",
        "activation": "swiglu",
        "d_k": 4,
    },
}

VARIANTS = {name: replace(_FULL, **choices) for name, choices in _CHOICES.items()}
