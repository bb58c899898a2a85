"""Variants of Transformer-XL. Memory and segment together are longer than the texts of the tests for all models."""

from dataclasses import replace
from typing import Any

from dragoman.models.config.transformer_xl import TransformerXLConfig
from tests.support.variants.sizes import V

_DEFAULT = TransformerXLConfig(
    vocabulary=V, layers=2, d_model=12, heads=2, d_ff=20, context=8, segment=4, memory=12, dropout=0.0
)

_CHOICES: dict[str, dict[str, Any]] = {
    "post-norm": {},
    "pre-norm, biases of each layer": {"norm_placement": "pre", "score_biases": "layer", "segment": 2, "memory": 20},
    "no memory, untied": {"segment": 24, "context": 24, "memory": 0, "tied_embeddings": False, "d_k": 5},
    "rms, swiglu": {"norm": "rms", "activation": "swiglu", "norm_placement": "pre"},
    "free constants": {"heads": 5, "d_k": 4, "d_v": 3, "attention_scale": 0.7, "position_base": 50.0},
}

VARIANTS = {name: replace(_DEFAULT, **choices) for name, choices in _CHOICES.items()}
