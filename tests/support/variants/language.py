"""Variants of the decoder-only Transformer: the default, and one for each choice of a setting."""

from dataclasses import replace
from typing import Any

from dragoman.models.config.language import LanguageConfig
from tests.support.variants.sizes import LONGEST, V

_DEFAULT = LanguageConfig(vocabulary=V, layers=2, d_model=12, heads=2, d_ff=20, context=8)

_CHOICES: dict[str, dict[str, Any]] = {
    "default": {},
    "gpt-2": {
        "positions": "learned",
        "max_positions": LONGEST,
        "activation": "gelu_tanh",
        "attention_bias": True,
    },
    "post-norm, sinusoidal": {"norm_placement": "post", "positions": "sinusoidal"},
    "relative": {"positions": "relative", "max_distance": 3},
    "no positions, untied": {"positions": "none", "tied_embeddings": False},
    "rms, swiglu": {"norm": "rms", "activation": "swiglu", "d_k": 4},
    "local and compressed": {"attention_pattern": ("local", "compressed"), "block": 6, "compression": 2},
    "compressed, learned": {
        "attention_pattern": ("compressed", "full"),
        "compression": 2,
        "positions": "learned",
        "max_positions": LONGEST,
        "d_k": 4,
        "d_v": 3,
    },
    "one-hot": {"positions": "one-hot", "max_positions": LONGEST},
}

VARIANTS = {name: replace(_DEFAULT, **choices) for name, choices in _CHOICES.items()}
