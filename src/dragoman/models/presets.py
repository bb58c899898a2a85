"""Named sizes: functions from vocabulary sizes to a configuration.

With one joint vocabulary the three embeddings are tied, as in the paper (section 3.4); with separate
ones target and output are.
"""

from collections.abc import Callable
from dataclasses import replace

from dragoman.errors import UserError
from dragoman.models.config import TransformerConfig


def base(source_vocabulary: int, target_vocabulary: int, *, joint: bool) -> TransformerConfig:
    """The paper's base model: 65 M parameters at 37,000 joint subwords (table 3)."""
    return TransformerConfig(
        source_vocabulary=source_vocabulary,
        target_vocabulary=target_vocabulary,
        tied_embeddings="three-way" if joint else "two-way",
    )


def big(source_vocabulary: int, target_vocabulary: int, *, joint: bool) -> TransformerConfig:
    """The paper's big model: 213 M parameters at 37,000 joint subwords (table 3)."""
    return replace(
        base(source_vocabulary, target_vocabulary, joint=joint),
        d_model=1024,
        heads=16,
        d_ff=4096,
        dropout=0.3,
    )


def small(source_vocabulary: int, target_vocabulary: int, *, joint: bool) -> TransformerConfig:
    """For a laptop: trains in minutes on two cores."""
    return replace(
        base(source_vocabulary, target_vocabulary, joint=joint),
        encoder_layers=3,
        decoder_layers=3,
        d_model=256,
        heads=4,
        d_ff=1024,
    )


def tiny(source_vocabulary: int, target_vocabulary: int, *, joint: bool) -> TransformerConfig:
    """For tests and first steps: trains in seconds."""
    return replace(
        base(source_vocabulary, target_vocabulary, joint=joint),
        encoder_layers=2,
        decoder_layers=2,
        d_model=64,
        heads=4,
        d_ff=256,
    )


def modern(source_vocabulary: int, target_vocabulary: int, *, joint: bool) -> TransformerConfig:
    """As `base`, with what has been learned since: pre-norm, RMSNorm, SwiGLU, rotary positions.

    d_ff is two thirds of base's (rounded up), so that three gated matrices cost what two did.
    """
    return replace(
        base(source_vocabulary, target_vocabulary, joint=joint),
        d_ff=1376,
        norm_placement="pre",
        norm="rms",
        activation="swiglu",
        positions="rotary",
    )


def fast(source_vocabulary: int, target_vocabulary: int, *, joint: bool) -> TransformerConfig:
    """As `small` with a deep encoder and one decoder layer, the part that works token by token.

    Source: Kasai et al., "Deep encoder, shallow decoder" (2020). Meant for a larger model's translations
    (`dragoman distill`); pre-norm, without which twelve layers hardly train.
    """
    return replace(
        small(source_vocabulary, target_vocabulary, joint=joint),
        encoder_layers=12,
        decoder_layers=1,
        norm_placement="pre",
    )


PRESETS: dict[str, Callable[..., TransformerConfig]] = {
    "tiny": tiny,
    "small": small,
    "base": base,
    "big": big,
    "modern": modern,
    "fast": fast,
}


def preset(name: str, source_vocabulary: int, target_vocabulary: int, *, joint: bool) -> TransformerConfig:
    """Look a preset up by name.

    Raises:
        UserError: for an unknown name.
    """
    if name not in PRESETS:
        raise UserError(f"unknown preset {name!r}: choose one of {', '.join(PRESETS)}")
    return PRESETS[name](source_vocabulary, target_vocabulary, joint=joint)
