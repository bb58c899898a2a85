"""Checks that the settings of several architectures share; each raises SettingsError with what is wrong."""

from collections.abc import Sequence
from typing import Any

from dragoman.errors import SettingsError, quoted

# The largest value of each size: beyond what anybody trains, and within what can be computed. Most sizes cost no more
# than the weights that they ask for, but steps, positions and lengths would cost time and memory that no file shows.
LARGEST = {
    "source_vocabulary": 1 << 24,
    "target_vocabulary": 1 << 24,
    "encoder_layers": 250,
    "decoder_layers": 250,
    "encoder_steps": 100,
    "decoder_steps": 100,
    "d_model": 1 << 16,
    "heads": 1 << 10,
    "d_ff": 1 << 20,
    "d_k": 1 << 16,
    "kernel_width": 999,
    "max_positions": 1 << 20,
    "max_distance": 1 << 20,
    "random_positions": 1 << 17,
}
# Of a size that is not in the table.
LARGEST_OTHER = (1 << 31) - 1


def check_sizes(config: Any, names: Sequence[str]) -> None:
    """Check whole numbers that must be 1 or more, and not beyond `LARGEST`."""
    for name in names:
        check_size(name, getattr(config, name))


def check_size(name: str, value: int, *, least: int = 1) -> None:
    """Check that a whole number is at least `least`, and not beyond `LARGEST`."""
    if value < least:
        raise SettingsError(f"{name} must be at least {least}, not {quoted(value)}")
    most = LARGEST.get(name, LARGEST_OTHER)
    if value > most:
        raise SettingsError(f"{name} must be at most {most:,}, not {quoted(value)}")


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
    check_size("random_positions", config.random_positions, least=0)


def check_tied_embeddings(config: Any) -> None:
    """Check that three tied embeddings have one joint vocabulary."""
    if config.tied_embeddings == "three-way" and config.source_vocabulary != config.target_vocabulary:
        raise SettingsError(
            "tied_embeddings = 'three-way' needs one joint vocabulary, but source has "
            f"{config.source_vocabulary} subwords and target {config.target_vocabulary}: "
            "use 'two-way', or a joint tokenizer"
        )
