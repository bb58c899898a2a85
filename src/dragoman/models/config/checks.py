"""Checks shared by the settings of the architectures; each raises SettingsError if a value is invalid."""

from collections import Counter
from collections.abc import Sequence
from typing import Any
from unicodedata import category

from dragoman.errors import SettingsError, quoted
from dragoman.models.config import AttentionScale

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
    "segment": 1 << 17,
    "memory": 1 << 17,
    "segments": 1 << 10,
    "block": 1 << 20,
    "compression": 1 << 10,
    "encoder_steps": 100,
    "decoder_steps": 100,
    "d_model": 1 << 16,
    "heads": 1 << 10,
    "d_ff": 1 << 20,
    "d_k": 1 << 16,
    "d_v": 1 << 16,
    "kernel_width": 999,
    "max_positions": 1 << 20,
    "max_distance": 1 << 20,
    "random_positions": 1 << 17,
    "image_size": 1 << 12,
    "patch": 1 << 12,
    "channels": 1 << 10,
    "blocks": 10,
    "width": 1 << 12,
}
# The largest allowed value of a setting that is not in the table.
LARGEST_OTHER = (1 << 31) - 1
# Position bases and attention scales beyond these numbers are useless, and not all precisions can compute with them.
LARGEST_POSITION_BASE = 1e12
SMALLEST_SCALE, LARGEST_SCALE = 1e-6, 1e6
# Largest number of labels, and length of a label in characters.
MOST_LABELS, LONGEST_LABEL = 1 << 16, 1000
# Unicode categories that a label does not have: control characters, surrogates, line and paragraph separators.
_NOT_IN_A_LABEL = {"Cc", "Cs", "Zl", "Zp"}
# The base of the paper, for which no particular kind of positions is needed.
POSITION_BASE = 10_000.0


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
    """Check the widths of heads, and that d_model is even, as sinusoidal positions require.

    The number of heads must divide d_model, unless both d_k and d_v are set.
    """
    check_sizes(config, [name for name in ("d_k", "d_v") if getattr(config, name) is not None])
    if config.d_model % config.heads and None in (config.d_k, config.d_v):
        raise SettingsError(
            f"heads must divide d_model, but {config.heads} does not divide {config.d_model}: "
            "use another number of heads, or set both d_k and d_v"
        )
    if config.d_model % 2:
        raise SettingsError(f"d_model must be even, not {config.d_model}")


def check_position_base(base: float, positions: str) -> None:
    """Check the base of sinusoidal and rotary positions; other positions have none."""
    if not 1 <= base <= LARGEST_POSITION_BASE:
        raise SettingsError(f"position_base must be at least 1 and at most {LARGEST_POSITION_BASE:.0e}, not {base}")
    if base != POSITION_BASE and positions not in ("sinusoidal", "rotary"):
        raise SettingsError(f"position_base needs sinusoidal or rotary positions, but positions = {positions!r}")


def check_attention_scale(scale: AttentionScale) -> None:
    """Check the factor of the attention scores if it is a number."""
    if not isinstance(scale, str) and not SMALLEST_SCALE <= scale <= LARGEST_SCALE:
        raise SettingsError(
            f"attention_scale must be 'sqrt', 'none', or a number from {SMALLEST_SCALE:.0e} to {LARGEST_SCALE:.0e}, "
            f"not {scale}"
        )


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


def check_labels(labels: Sequence[str], *, least: int = 1) -> None:
    """Check the number of the labels of a classifier of images, that they are different, and that each is one line."""
    if not least <= len(labels) <= MOST_LABELS:
        raise SettingsError(f"a model has from {least} to {MOST_LABELS:,} labels, not {len(labels):,}")
    for label in labels:
        if not 1 <= len(label) <= LONGEST_LABEL:
            raise SettingsError(
                f"a label has from 1 to {LONGEST_LABEL:,} characters, but {quoted(label)} has {len(label):,}"
            )
        if any(category(character) in _NOT_IN_A_LABEL for character in label):
            raise SettingsError(f"a label has no control characters and no line breaks, but {quoted(label)} has")
    [(label, count)] = Counter(labels).most_common(1) or [("", 0)]
    if count > 1:
        raise SettingsError(f"labels must be different, but {quoted(label)} occurs {count:,} times")
