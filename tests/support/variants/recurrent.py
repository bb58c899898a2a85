"""Variants of the recurrent model."""

from dataclasses import replace
from typing import Any

from dragoman.models.config.recurrent import RecurrentConfig
from tests.support.variants.sizes import V

_DEFAULT = RecurrentConfig(source_vocabulary=V, target_vocabulary=V, d_model=12)

_CHOICES: dict[str, dict[str, Any]] = {
    "default": {},
    "lstm, one vector": {"attention": "none", "input_feeding": False},
    "lstm, one vector, one-way": {
        "attention": "none",
        "input_feeding": False,
        "bidirectional": False,
        "tied_embeddings": "none",
    },
    "lstm, dot": {"attention": "dot", "input_feeding": False, "encoder_layers": 1, "decoder_layers": 1},
    "lstm, dot, fed": {"attention": "dot", "bidirectional": False, "tied_embeddings": "two-way"},
    "lstm, general": {"input_feeding": False, "encoder_layers": 3, "decoder_layers": 1},
    "lstm, additive": {"attention": "additive", "input_feeding": False, "bidirectional": False},
    "lstm, additive, fed": {"attention": "additive", "encoder_layers": 1, "decoder_layers": 3},
    "gru, one vector": {"cell": "gru", "attention": "none", "input_feeding": False, "tied_embeddings": "two-way"},
    "gru, dot": {"cell": "gru", "attention": "dot", "input_feeding": False, "bidirectional": False},
    "gru, general, fed": {"cell": "gru", "encoder_layers": 1, "decoder_layers": 1, "tied_embeddings": "none"},
    "gru, additive, fed": {"cell": "gru", "attention": "additive"},
}

VARIANTS = {name: replace(_DEFAULT, **choices) for name, choices in _CHOICES.items()}
