"""Variants of the Transformer: the paper's, and one for each choice of a setting."""

from dataclasses import replace
from typing import Any

from dragoman.models.config.transformer import PRESETS, TransformerConfig
from dragoman.models.registry import preset
from tests.support.variants.sizes import LONGEST, V

_PAPER = TransformerConfig(
    source_vocabulary=V,
    target_vocabulary=V,
    encoder_layers=2,
    decoder_layers=2,
    d_model=12,
    heads=2,
    d_ff=20,
)

_CHOICES: dict[str, dict[str, Any]] = {
    "paper": {},
    "pre-norm": {"norm_placement": "pre"},
    "rms": {"norm": "rms", "tied_embeddings": "none"},
    "batch": {"norm": "batch"},
    "batch, pre-norm": {"norm": "batch", "norm_placement": "pre"},
    "gelu": {"activation": "gelu", "attention_bias": True},
    "geglu": {"activation": "geglu"},
    "swiglu": {"activation": "swiglu", "norm_placement": "pre"},
    "learned": {"positions": "learned", "max_positions": LONGEST, "tied_embeddings": "two-way"},
    "rotary": {"positions": "rotary"},
    "rotary, untied": {"positions": "rotary", "tied_embeddings": "none", "norm_placement": "pre"},
    "one-hot": {"positions": "one-hot", "max_positions": LONGEST},
    "relative": {"positions": "relative"},
    "relative, near": {"positions": "relative", "max_distance": 2, "attention_bias": True},
    "relative, pre-norm": {"positions": "relative", "max_distance": 5, "norm_placement": "pre"},
    "no positions": {"positions": "none"},
    "random positions": {"random_positions": 50},
    "narrow keys": {"d_k": 4},
    "wide keys, rotary": {"d_k": 10, "positions": "rotary"},
    "odd keys, relative": {"d_k": 5, "positions": "relative", "norm_placement": "pre"},
    "unscaled, free widths": {"attention_scale": "none", "heads": 5, "d_k": 2, "d_v": 3, "position_base": 100.0},
    "scaled, relative": {"attention_scale": 0.7, "positions": "relative", "d_v": 8, "attention_bias": True},
    "one head": {"heads": 1, "encoder_layers": 1, "decoder_layers": 3},
}
for _name in PRESETS:
    # The choices of each preset, at a small size.
    _config = preset(_name, V, V, joint=True)
    _CHOICES[f"as {_name}"] = {
        field: getattr(_config, field)
        for field in ("norm_placement", "norm", "activation", "positions", "tied_embeddings", "attention_bias")
    }

VARIANTS = {name: replace(_PAPER, **choices) for name, choices in _CHOICES.items()}
