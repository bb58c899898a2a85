"""Checks shared by the settings of the architectures; each raises SettingsError if a value is invalid."""

from collections.abc import Sequence
from typing import Any

from dragoman.errors import SettingsError, quoted

# The largest allowed value of each setting: larger than any practical model, and small enough to compute with. The cost
# of most settings is visible in the size of the weights file, but steps, positions and lengths can need much time and
# memory with a small file.
LARGEST = {
    "source_vocabulary": 1 << 24,
    "target_vocabulary": 1 << 24,
    "encoder_layers": 250,
    "decoder_layers": 250,
    "layers": 250,
    "vocabulary": 1 << 24,
    "context": 1 << 17,
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
# The largest allowed value of a setting that is not in the table.
LARGEST_OTHER = (1 << 31) - 1


def check_sizes(config: Any, names: Sequence[str]) -> None:
    """Check that the settings `names` are at least 1, and at most as large as `LARGEST` allows."""
    for name in names:
        check_size(name, getattr(config, name))


def check_size(name: str, value: int, *, least: int = 1) -> None:
    """Check that the setting `name` is at least `least`, and at most as large as `LARGEST` allows."""
    if value < least:
        raise SettingsError(f"{name} must be at least {least}, not {quoted(value)}")
    most = LARGEST.get(name, LARGEST_OTHER)
    if value > most:
        raise SettingsError(f"{name} must be at most {most:,}, not {quoted(value)}")


def check_probabilities(config: Any, names: Sequence[str]) -> None:
    """Check that the dropout probabilities `names` are at least 0 and below 1."""
    for name in names:
        if not 0 <= getattr(config, name) < 1:
            raise SettingsError(f"{name} must be in [0, 1), not {getattr(config, name)}")


def check_norm_epsilon(config: Any) -> None:
    """Check that the number added to the variance in norms neither vanishes in float32 nor replaces the variance."""
    if not 1e-12 <= config.norm_epsilon <= 1:
        raise SettingsError(f"norm_epsilon must be between 1e-12 and 1, not {quoted(config.norm_epsilon)}")


def check_heads(config: Any) -> None:
    """Check that d_model is a multiple of the number of heads, and even, as sinusoidal positions require."""
    if config.d_model % config.heads:
        raise SettingsError(f"heads must divide d_model, but {config.heads} does not divide {config.d_model}")
    if config.d_model % 2:
        raise SettingsError(f"d_model must be even, not {config.d_model}")


def check_random_positions(config: Any) -> None:
    """Check the number of positions at which a batch may start."""
    check_size("random_positions", config.random_positions, least=0)


def check_tied_embeddings(config: Any) -> None:
    """Check that both vocabularies have the same size if all three matrices are tied."""
    if config.tied_embeddings == "three-way" and config.source_vocabulary != config.target_vocabulary:
        raise SettingsError(
            "tied_embeddings = 'three-way' needs one joint vocabulary, but the source vocabulary has "
            f"{config.source_vocabulary} subwords and the target vocabulary {config.target_vocabulary}: "
            "use 'two-way', or a joint tokenizer"
        )
