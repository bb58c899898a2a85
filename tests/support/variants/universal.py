"""Variants of the Universal Transformer: fixed and adaptive depth, and one for each choice of a setting."""

from dataclasses import replace
from typing import Any

from dragoman.models.config.universal import UniversalConfig
from tests.support.variants.sizes import V

_ADAPTIVE = UniversalConfig(
    source_vocabulary=V,
    target_vocabulary=V,
    encoder_steps=4,
    decoder_steps=4,
    halting="adaptive",
    d_model=12,
    heads=2,
    d_ff=20,
)

_CHOICES: dict[str, dict[str, Any]] = {
    "adaptive": {},
    "fixed": {"halting": "fixed", "encoder_steps": 3, "decoder_steps": 3},
    "adaptive, pre-norm": {"norm_placement": "pre"},
    "fixed, pre-norm": {"halting": "fixed", "norm_placement": "pre", "encoder_steps": 2, "decoder_steps": 2},
    "rms": {"norm": "rms", "tied_embeddings": "none"},
    "swiglu": {"activation": "swiglu", "norm_placement": "pre", "norm": "rms"},
    "geglu": {"activation": "geglu", "halting": "fixed", "encoder_steps": 1, "decoder_steps": 3},
    "more steps in the decoder": {"encoder_steps": 2, "decoder_steps": 6, "tied_embeddings": "two-way"},
    "patient": {"halting_threshold": 1e-6, "activation": "gelu", "encoder_steps": 6, "decoder_steps": 3},
    "one step": {"encoder_steps": 1, "decoder_steps": 1},
    "one head": {"heads": 1, "random_positions": 50},
    "free constants": {"heads": 5, "d_k": 2, "d_v": 3, "attention_scale": 0.5, "position_base": 50.0},
}

VARIANTS = {name: replace(_ADAPTIVE, **choices) for name, choices in _CHOICES.items()}
