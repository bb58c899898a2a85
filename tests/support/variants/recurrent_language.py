"""Variants of the recurrent language model."""

from dataclasses import replace
from typing import Any

from dragoman.models.config.recurrent_language import RecurrentLanguageConfig
from tests.support.variants.sizes import V

_DEFAULT = RecurrentLanguageConfig(vocabulary=V, d_model=12, context=8)

_CHOICES: dict[str, dict[str, Any]] = {
    "lstm": {},
    "gru, untied": {"cell": "gru", "layers": 3, "tied_embeddings": False},
}

VARIANTS = {name: replace(_DEFAULT, **choices) for name, choices in _CHOICES.items()}
