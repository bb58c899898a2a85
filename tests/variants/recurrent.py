"""The recurrent model's choices."""

from dataclasses import replace
from typing import Any

from dragoman.models.config import RecurrentConfig
from tests.variants.sizes import V

_DEFAULT = RecurrentConfig(source_vocabulary=V, target_vocabulary=V, d_model=12)

_CHOICES: dict[str, dict[str, Any]] = {
    "default": {},
    "lstm, one vector": {"attention": "none"},
    "lstm, one vector, one-way": {"attention": "none", "bidirectional": False, "tied_embeddings": "none"},
    "lstm, dot": {"attention": "dot", "encoder_layers": 1, "decoder_layers": 1},
    "lstm, dot, fed": {
        "attention": "dot",
        "input_feeding": True,
        "bidirectional": False,
        "tied_embeddings": "two-way",
    },
    "lstm, general, fed": {"input_feeding": True},
    "lstm, general": {"encoder_layers": 3, "decoder_layers": 1},
    "lstm, additive": {"attention": "additive", "bidirectional": False},
    "lstm, additive, fed": {"attention": "additive", "input_feeding": True, "encoder_layers": 1, "decoder_layers": 3},
    "gru, one vector": {"cell": "gru", "attention": "none", "tied_embeddings": "two-way"},
    "gru, dot": {"cell": "gru", "attention": "dot", "bidirectional": False},
    "gru, general, fed": {
        "cell": "gru",
        "input_feeding": True,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "tied_embeddings": "none",
    },
    "gru, additive, fed": {"cell": "gru", "attention": "additive", "input_feeding": True},
}

VARIANTS = {name: replace(_DEFAULT, **choices) for name, choices in _CHOICES.items()}
