"""Variants of the encoder that is trained by masking: BERT's choices, and one for each choice of a setting."""

from dataclasses import replace
from typing import Any

from dragoman.models.config.masked import PRESETS, MaskedConfig
from tests.support.variants.sizes import LONGEST, V

_DEFAULT = MaskedConfig(vocabulary=V, layers=2, d_model=12, heads=2, d_ff=20)
_BERT = {
    name: value
    for name, value in PRESETS["bert-base"].items()
    if name not in ("layers", "d_model", "heads", "d_ff", "context")
}

_CHOICES: dict[str, dict[str, Any]] = {
    "default": {},
    "bert": {**_BERT, "max_positions": LONGEST, "attention_dropout": 0.0},
    "untied": {"tied_embeddings": False, "positions": "sinusoidal"},
    "rms": {"norm": "rms", "activation": "swiglu", "embedding_norm": True},
    "relative, segments": {"positions": "relative", "segments": 3, "pooler": True},
    "no head": {"prediction_head": False, "norm_placement": "post", "positions": "learned", "max_positions": LONGEST},
}

VARIANTS = {name: replace(_DEFAULT, **choices) for name, choices in _CHOICES.items()}
