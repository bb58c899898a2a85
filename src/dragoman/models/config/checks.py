"""Checks that the models' settings share; each raises ValueError with what is wrong."""

from collections.abc import Sequence
from typing import Any


def check_at_least_one(config: Any, names: Sequence[str]) -> None:
    """Whole numbers that must be 1 or more."""
    for name in names:
        if getattr(config, name) < 1:
            raise ValueError(f"{name} must be at least 1, not {getattr(config, name)}")


def check_probabilities(config: Any, names: Sequence[str]) -> None:
    """Probabilities of dropping something: in [0, 1)."""
    for name in names:
        if not 0 <= getattr(config, name) < 1:
            raise ValueError(f"{name} must be in [0, 1), not {getattr(config, name)}")


def check_tied_embeddings(config: Any) -> None:
    """Three tied embeddings need one joint vocabulary."""
    if config.tied_embeddings == "three-way" and config.source_vocabulary != config.target_vocabulary:
        raise ValueError(
            "tied_embeddings = 'three-way' needs one joint vocabulary, but source has "
            f"{config.source_vocabulary} subwords and target {config.target_vocabulary}: "
            "use 'two-way', or a joint tokenizer"
        )
