"""Checks that the settings of several architectures share; each raises SettingsError with what is wrong."""

from collections.abc import Sequence
from typing import Any

from dragoman.errors import SettingsError


def check_at_least_one(config: Any, names: Sequence[str]) -> None:
    """Check whole numbers that must be 1 or more."""
    for name in names:
        if getattr(config, name) < 1:
            raise SettingsError(f"{name} must be at least 1, not {getattr(config, name)}")


def check_probabilities(config: Any, names: Sequence[str]) -> None:
    """Check probabilities of dropping something: in [0, 1)."""
    for name in names:
        if not 0 <= getattr(config, name) < 1:
            raise SettingsError(f"{name} must be in [0, 1), not {getattr(config, name)}")


def check_heads(config: Any) -> None:
    """Check that heads of one width fill d_model, and that d_model is even, as sinusoidal positions are pairs."""
    if config.d_model % config.heads:
        raise SettingsError(f"heads must divide d_model, but {config.heads} does not divide {config.d_model}")
    if config.d_model % 2:
        raise SettingsError(f"d_model must be even, not {config.d_model}")


def check_random_positions(config: Any) -> None:
    """Check the number of positions at which a batch may begin."""
    if config.random_positions < 0:
        raise SettingsError(f"random_positions must be 0 (off) or more, not {config.random_positions}")


def check_tied_embeddings(config: Any) -> None:
    """Check that three tied embeddings have one joint vocabulary."""
    if config.tied_embeddings == "three-way" and config.source_vocabulary != config.target_vocabulary:
        raise SettingsError(
            "tied_embeddings = 'three-way' needs one joint vocabulary, but source has "
            f"{config.source_vocabulary} subwords and target {config.target_vocabulary}: "
            "use 'two-way', or a joint tokenizer"
        )
